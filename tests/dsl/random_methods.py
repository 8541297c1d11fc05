"""The table that shows how the numbers of each generator method are drawn.

``python -m tests.dsl.random_methods`` prints the table. The page `docs/guide/random_numbers.md` contains it, and
test_random_methods.py compares the two.
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
    "PCG64, PCG64DXSM, Philox on the CPU": (JUMPING, ("cpu",)),
    "PCG64, PCG64DXSM, Philox on a GPU": (JUMPING, ("simt",)),
    "SFC64, MT19937": ((np.random.SFC64, np.random.MT19937), ("cpu", "simt")),
}
CALLS: dict[str, Callable[[Any, int], Any]] = {
    "`random`": lambda rng, n: rng.random(n),
    "`random` of float32": lambda rng, n: rng.random(n, np.float32),
    "`uniform`": lambda rng, n: rng.uniform(-1.0, 1.0, n),
    "`integers` of any dtype, if the number of possible values is a power of two": lambda rng, n: rng.integers(
        0, 256, n, np.uint16
    ),
    "`integers` (int64 or int32) below 1,000": lambda rng, n: rng.integers(0, 1000, n),
    "`integers` (int16) below 1,000": lambda rng, n: rng.integers(0, 1000, n, np.int16),
    "`choice` below 1,000 with replacement": lambda rng, n: rng.choice(1000, n),
    "`standard_normal`": lambda rng, n: rng.standard_normal(n),
    "`normal`": lambda rng, n: rng.normal(1.0, 2.0, n),
    "`lognormal`": lambda rng, n: rng.lognormal(0.0, 1.0, n),
    "`standard_exponential`": lambda rng, n: rng.standard_exponential(n),
    "`exponential`": lambda rng, n: rng.exponential(2.0, n),
    "`weibull`": lambda rng, n: rng.weibull(2.0, n),
    "`pareto`": lambda rng, n: rng.pareto(2.0, n),
    "`power`": lambda rng, n: rng.power(2.0, n),
    "`rayleigh`": lambda rng, n: rng.rayleigh(2.0, n),
    "`laplace`": lambda rng, n: rng.laplace(0.0, 1.0, n),
    "`gumbel`": lambda rng, n: rng.gumbel(0.0, 1.0, n),
    "`logistic`": lambda rng, n: rng.logistic(0.0, 1.0, n),
    "`triangular`": lambda rng, n: rng.triangular(0.0, 1.0, 2.0, n),
    "`standard_normal` of float32": lambda rng, n: rng.standard_normal(n, np.float32),
    "`standard_exponential` of float32": lambda rng, n: rng.standard_exponential(n, np.float32),
    "`gamma`": lambda rng, n: rng.gamma(2.0, 1.0, n),
    "`beta`": lambda rng, n: rng.beta(2.0, 1.0, n),
    "`poisson`": lambda rng, n: rng.poisson(3.0, n),
    "`binomial`": lambda rng, n: rng.binomial(10, 0.5, n),
    "`multivariate_normal`": lambda rng, n: rng.multivariate_normal(np.zeros(2), np.eye(2), n),
    "`choice` without replacement": lambda rng, n: rng.choice(2 * n, n, replace=False),
    "`permutation`": lambda rng, n: rng.permutation(n),
    "`permuted`": lambda rng, n: rng.permuted(np.arange(n)),
}


def where_it_draws(name: str, kind: Any, device: str) -> str:
    """Draw with a method on a device. Return what drew the numbers: "kernels", "native code" or "NumPy".

    Assert that the numbers and the final state equal NumPy's.
    """
    ours, theirs = wf.random.Generator(kind(3)), np.random.Generator(kind(3))
    with wf.device(device), override(host_fallback="ignore", immediate=0), wf.profile() as profile:
        found = CALLS[name](ours, N)
        node = found._storage.expr
        np.testing.assert_array_equal(np.asarray(found), CALLS[name](theirs, N), strict=True)
    assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)
    if node is not None and is_draw(node):
        return "kernels"
    return "native code" if any(launch.note.name.startswith("random.") for launch in profile.launches) else "NumPy"


def table() -> str:
    """Return the table as Markdown."""
    lines = ["| method | " + " | ".join(COLUMNS) + " |", "| --- " * (len(COLUMNS) + 1) + "|"]
    for name in CALLS:
        words = []
        for kinds, devices in COLUMNS.values():
            (word,) = {where_it_draws(name, kind, device) for kind in kinds for device in devices}
            words.append(word)
        lines.append(f"| {name} | " + " | ".join(words) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    from tests.runtime.cpu.random import native_streams
    from weft.runtime.cpu.random.random_streams import readiness

    for number in range(len(native_streams.KINDS)):
        readiness(number).loaded = native_streams.code(number)
    print(table())
