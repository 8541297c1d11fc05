"""A generator of the table that says where each method of a random generator draws.

``python -m tests.dsl.random_methods`` prints it. It stands in `docs/guide/random_numbers.md`; test_random_methods.py
holds the page to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from weft.fusion.graph.expr import is_draw
from weft.runtime import override

N = 20_000
# The columns: bit generators and devices.
JUMPING = (np.random.PCG64, np.random.PCG64DXSM, np.random.Philox)
COLUMNS: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "PCG64, PCG64DXSM, Philox: CPU": (JUMPING, ("cpu",)),
    "GPU": (JUMPING, ("simt",)),
    "SFC64, MT19937: both": ((np.random.SFC64, np.random.MT19937), ("cpu", "simt")),
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "`random`": lambda rng: rng.random(N),
    "`random` of float32": lambda rng: rng.random(N, np.float32),
    "`uniform`": lambda rng: rng.uniform(-1.0, 1.0, N),
    "`integers` of any dtype, a power of two of them": lambda rng: rng.integers(0, 256, N, np.uint16),
    "`integers` (int64 or int32) below 1,000": lambda rng: rng.integers(0, 1000, N),
    "`integers` (int16) below 1,000": lambda rng: rng.integers(0, 1000, N, np.int16),
    "`choice` below 1,000 with replacement": lambda rng: rng.choice(1000, N),
    "`standard_normal`": lambda rng: rng.standard_normal(N),
    "`normal`": lambda rng: rng.normal(1.0, 2.0, N),
    "`lognormal`": lambda rng: rng.lognormal(0.0, 1.0, N),
    "`standard_exponential`": lambda rng: rng.standard_exponential(N),
    "`exponential`": lambda rng: rng.exponential(2.0, N),
    "`weibull`": lambda rng: rng.weibull(2.0, N),
    "`pareto`": lambda rng: rng.pareto(2.0, N),
    "`power`": lambda rng: rng.power(2.0, N),
    "`rayleigh`": lambda rng: rng.rayleigh(2.0, N),
    "`laplace`": lambda rng: rng.laplace(0.0, 1.0, N),
    "`gumbel`": lambda rng: rng.gumbel(0.0, 1.0, N),
    "`logistic`": lambda rng: rng.logistic(0.0, 1.0, N),
    "`triangular`": lambda rng: rng.triangular(0.0, 1.0, 2.0, N),
    "`standard_normal` of float32": lambda rng: rng.standard_normal(N, np.float32),
    "`standard_exponential` of float32": lambda rng: rng.standard_exponential(N, np.float32),
    "`gamma`": lambda rng: rng.gamma(2.0, 1.0, N),
    "`beta`": lambda rng: rng.beta(2.0, 1.0, N),
    "`poisson`": lambda rng: rng.poisson(3.0, N),
    "`binomial`": lambda rng: rng.binomial(10, 0.5, N),
    "`multivariate_normal`": lambda rng: rng.multivariate_normal(np.zeros(2), np.eye(2), N),
    "`choice` without replacement": lambda rng: rng.choice(2 * N, N, replace=False),
    "`permutation`": lambda rng: rng.permutation(N),
    "`permuted`": lambda rng: rng.permuted(np.arange(N)),
}


def where_it_draws(name: str, kind: Any, device: str) -> str:
    """Call a method on a device, and return the word of the table. Its numbers and the state must be NumPy's."""
    ours, theirs = wf.random.Generator(kind(3)), np.random.Generator(kind(3))
    with wf.device(device), override(host_fallback="ignore", immediate=0), wf.profile() as profile:
        found = CALLS[name](ours)
        node = found._storage.expr
        np.testing.assert_array_equal(np.asarray(found), CALLS[name](theirs), strict=True)
    assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)
    if node is not None and is_draw(node):
        return "kernels"
    return "native code" if any(launch.note.name.startswith("random.") for launch in profile.launches) else "NumPy"


def table() -> str:
    """Return the table as Markdown."""
    lines = ["| method | " + " | ".join(COLUMNS) + " |", "| --- " * (len(COLUMNS) + 1) + "|"]
    for name in CALLS:
        words = []
        for kinds, places in COLUMNS.values():
            (word,) = {where_it_draws(name, kind, place) for kind in kinds for place in places}
            words.append(word)
        lines.append(f"| {name} | " + " | ".join(words) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    from tests.runtime.cpu.random import native_streams
    from weft.runtime.cpu.random.random_streams import readiness

    for number in range(len(native_streams.KINDS)):
        readiness(number).loaded = native_streams.code(number)
    print(table())
