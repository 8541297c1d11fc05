"""Results reuse the memory of their operands if nothing else needs those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion.explain.explanation import schedules_of
from weft.runtime import get_device

SOURCE = np.random.default_rng(0)
X, W, B = (SOURCE.standard_normal(shape).astype(np.float32) for shape in ((60, 50), (50, 40), (40,)))
C = SOURCE.standard_normal((60, 40)).astype(np.float32)


def row_softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# Each with the number of arrays that the plan needs memory for.
PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {
    "bias and activation": (lambda xp, x, w, b, c: xp.maximum(x @ w + b, 0), 1),
    "scaled and added": (lambda xp, x, w, b, c: 2 * (x @ w) + xp.float32(0.5) * c, 1),
    "softmax of a product": (lambda xp, x, w, b, c: row_softmax(xp, x @ w), 1),
    "two layers": (lambda xp, x, w, b, c: xp.tanh(xp.tanh(x @ w + b) @ w.T + 1), 2),
    "two results of two products": (lambda xp, x, w, b, c: (lambda p, q: p * q + b)(x @ w, (2 * x) @ w), 3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_follows_a_call_happens_in_its_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, count = PROGRAMS[name]
    arrays = [wf.asarray(a) for a in (X, W, B, C)]
    wf.evaluate(*arrays)
    found = run(wf, *arrays)
    (schedule,) = schedules_of([found._storage])
    plain = {g.opaque for g in schedule.groups} | {n for g in schedule.groups for n in g.made if n not in g.private}
    assert len(plain - {None}) - sum(len(group.over) for group in schedule.groups) == count
    device = get_device("cpu")
    asked = []
    allocate = device.allocate
    monkeypatch.setattr(device, "allocate", lambda nbytes: asked.append(nbytes) or allocate(nbytes), raising=False)
    wf.evaluate(found)
    assert sum(n >= found.nbytes for n in asked) <= count
    np.testing.assert_allclose(np.asarray(found), run(np, X, W, B, C), rtol=2e-4, atol=1e-5)


def test_memory_stays_with_whoever_needs_it_again() -> None:
    x, w = wf.asarray(X), wf.asarray(W)
    product = x @ w
    shifted, turned = product + 1, product[::-1] + product  # the second reads in another place
    wf.evaluate(shifted, turned)
    np.testing.assert_array_equal(np.asarray(shifted), np.asarray(product) + 1)
    np.testing.assert_array_equal(np.asarray(turned), np.asarray(product)[::-1] + np.asarray(product))
    late = x @ w
    total = wf.exp(late)
    wf.evaluate(total)
    np.testing.assert_array_equal(np.asarray(late), np.asarray(product))


@pytest.mark.parametrize("device", ["simt", "simt::backward"])
def test_gpu_schedules_in_the_memory_of_a_product(device: str) -> None:
    with wf.device(device):
        x, w, b = (wf.asarray(a) for a in (X, W, B))
        np.testing.assert_allclose(np.asarray(wf.maximum(x @ w + b, 0)), np.maximum(X @ W + B, 0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.asarray(row_softmax(wf, x @ w)), row_softmax(np, X @ W), rtol=1e-4)
        p = x @ x.T
        np.testing.assert_allclose(np.asarray(p + p.T), X @ X.T + (X @ X.T).T, rtol=1e-4, atol=1e-4)
