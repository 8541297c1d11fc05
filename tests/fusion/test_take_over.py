"""Tests of results that reuse the memory of operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion.explain.explanation import schedules_of
from weft.runtime import get_device

pytestmark = pytest.mark.cpu

SOURCE = np.random.default_rng(0)
X, W, B = (SOURCE.standard_normal(shape).astype(np.float32) for shape in ((60, 50), (50, 40), (40,)))
C = SOURCE.standard_normal((60, 40)).astype(np.float32)


def row_softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# Programs, and the number of arrays for which the plan allocates memory.
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
    shifted, turned = product + 1, product[::-1] + product  # the second expression reads elements at other positions
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


# -- assignments in place -----------------------------------------------------------------------------


def _address(array: Any) -> int:
    wf.evaluate(array)
    return int(array._storage.buffer.address)


ASSIGNMENTS: dict[str, Callable[[Any, Any, Any], None]] = {
    "operator": lambda xp, x, y: x.__iadd__(y),
    "operand that comes second": lambda xp, x, y: x.__setitem__(slice(None), y * 2 - x),
    "output": lambda xp, x, y: xp.multiply(x, y, out=x),
    "mask": lambda xp, x, y: x.__setitem__(y > 0, 0.5),
    "several": lambda xp, x, y: (x.__isub__(1), x.__imul__(y), x.__setitem__(x > 2, 2)),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_a_whole_array_is_assigned_in_place(name: str) -> None:
    a, b = SOURCE.standard_normal((2, 7, 90))
    x, y = wf.asarray(a), wf.asarray(b)
    before = _address(x)
    for _ in range(3):
        ASSIGNMENTS[name](wf, x, y)
        ASSIGNMENTS[name](np, a, b)
        assert _address(x) == before
        np.testing.assert_array_equal(np.asarray(x), a)
    np.testing.assert_array_equal(np.asarray(y), b)


KEPT: dict[str, Callable[[Any], Any]] = {
    "NumPy's array": lambda x: x.numpy(),
    "part of NumPy's array": lambda x: x.numpy()[1:],
    "memory": lambda x: memoryview(x.numpy()),
    "pending": lambda x: x + 1,
    "copy": lambda x: x.copy(),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_still_needed_is_not_overwritten(name: str) -> None:
    a = SOURCE.standard_normal((40, 30))
    x = wf.asarray(a)
    view = x[::2]
    wf.evaluate(x)
    before = KEPT[name](x)
    wanted = a + 1 if name == "pending" else np.array(before)
    x += 1
    np.testing.assert_array_equal(np.asarray(x), a + 1)
    np.testing.assert_array_equal(np.asarray(view), (a + 1)[::2])
    np.testing.assert_array_equal(np.asarray(before), wanted)


@pytest.mark.skipif("config.getoption('--device').startswith('cuda')", reason="a GPU does not read host memory")
def test_memory_of_other_libraries_is_not_overwritten() -> None:
    class Foreign:
        def __init__(self, values: np.ndarray) -> None:
            self.values = values
            self.__cuda_array_interface__ = {
                **values.__array_interface__,
                "version": 3,
                "data": (values.ctypes.data, False),
            }

    values, own = SOURCE.standard_normal((2, 40, 30))
    found = wf.add(wf.asarray(Foreign(values)), 1)
    np.testing.assert_array_equal(np.asarray(found), values + 1)
    before = own.copy()
    found = wf.asarray(SOURCE.standard_normal((40, 30))) + own
    wf.evaluate(found)
    np.testing.assert_array_equal(own, before)


def test_two_results_do_not_take_the_same_memory() -> None:
    a, b = SOURCE.standard_normal((2, 50, 30))
    x, y = wf.asarray(a), wf.asarray(b)
    wf.evaluate(x, y)
    x[:], y[:] = x + y, x - y
    wf.evaluate(x, y)
    np.testing.assert_array_equal(np.asarray(x), a + b)
    np.testing.assert_array_equal(np.asarray(y), a - b)
    assert _address(x) != _address(y)


def test_elements_that_are_read_elsewhere_stay() -> None:
    a = SOURCE.standard_normal((50, 50))
    x = wf.asarray(a)
    wf.evaluate(x)
    x[:] = x[::-1] + x.T
    np.testing.assert_array_equal(np.asarray(x), a[::-1] + a.T)
    x[:] = x + x.sum(axis=1, keepdims=True)  # each row is read twice
    np.testing.assert_allclose(np.asarray(x), (w := a[::-1] + a.T) + w.sum(axis=1, keepdims=True))


def test_a_plan_serves_arrays_that_are_kept_and_arrays_that_are_not() -> None:
    for keep in (True, False, True, False):
        x = wf.asarray(A := SOURCE.standard_normal(700))
        wf.evaluate(x)
        if keep:
            y = x * 3 - 1
        else:
            y, x = x * 3 - 1, None
        np.testing.assert_array_equal(np.asarray(y), A * 3 - 1)
        if keep:
            np.testing.assert_array_equal(np.asarray(x), A)
