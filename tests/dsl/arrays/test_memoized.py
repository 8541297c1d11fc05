"""Tests of memoized function calls.

One look-up finds the expression that recording would create.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import INTERNED

PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "concatenate": lambda xp, x, k: xp.concatenate([x, x[:1], x * 2]),
    "stack": lambda xp, x, k: xp.stack((x, x + 1), axis=1),
    "roll": lambda xp, x, k: xp.roll(x, 1, axis=0) - xp.roll(x, -1, 1),
    "pad": lambda xp, x, k: xp.pad(x, 1, constant_values=-0.5),
    "where": lambda xp, x, k: xp.where(x > 0, x, -0.0),
    "clip": lambda xp, x, k: xp.clip(x, -0.5, None),
    "std": lambda xp, x, k: x.std(axis=0, ddof=1) + xp.mean(x),
    "matmul": lambda xp, x, k: x @ x.T + xp.dot(x[0], x[1]),
    "einsum": lambda xp, x, k: xp.einsum("ij,kj->ik", x, x),
    "round": lambda xp, x, k: xp.round(x, 1),
    # programs that must not reuse an expression, or not with the same arguments
    "changing number": lambda xp, x, k: xp.clip(x, 0.1 * k, 5.0) + xp.where(x < 0.25 * k, k, x),
    "changing shift": lambda xp, x, k: xp.roll(x, k, axis=0),
    "changing NumPy shift": lambda xp, x, k: xp.roll(x, (np.int64(k), np.int32(-k)), (0, 1)),
    "changing scalars": lambda xp, x, k: xp.where(x > 0, np.int64(k) if k % 2 else k, np.int32(k)),
    "zeros of two signs": lambda xp, x, k: 1 / xp.where(x > 10, x, -0.0 if k % 2 else 0.0),
    "lists of numbers": lambda xp, x, k: xp.where(x[0, :3] > 0, [1.0, 2.0, k], 0),
    "arrays of NumPy's": lambda xp, x, k: xp.concatenate([x[0], np.arange(3.0) + k]),
    "written between": lambda xp, x, k: _write(xp, xp.concatenate([x, x]), k),
    "not copied": lambda xp, x, k: _write(xp, xp.roll(x, 0, axis=0), k) + x,
}


def _write(xp: Any, made: Any, k: int) -> Any:
    made[0] = k
    return made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_found_again_is_what_would_be_recorded(name: str) -> None:
    rng = np.random.default_rng(1)
    for k in range(7):
        values = rng.standard_normal((4, 5))
        x = wf.asarray(values)
        x = x + 1 if k % 3 == 2 else x  # either in memory or pending
        wanted = PROGRAMS[name](np, values + 1 if k % 3 == 2 else values, k)
        found = PROGRAMS[name](wf, x, k)
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
        if name.startswith("zeros"):
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_a_view_has_no_array_in_it() -> None:
    with wf.device("simt"):
        offset = wf.arange(3).max() - 1
        assert wf.trace(wf.arange(6).reshape(2, 3), offset).item() == 6


def test_options_taken_from_arrays_are_not_found_again() -> None:
    values, counts = np.arange(12.0).reshape(3, 4), np.array([0, 1, 0, 1])
    x, which = wf.asarray(values), wf.asarray(counts)
    made: dict[str, Any] = {
        "sum": lambda m, x, n: m.sum(x, axis=n),
        "mean": lambda m, x, n: m.mean(x * 2, n),
        "cumsum": lambda m, x, n: m.cumsum(x * 2, n),
        "argmax": lambda m, x, n: m.argmax(x * 2, n),
        "nanstd": lambda m, x, n: m.nanstd(x * 2, n, ddof=n),
        "round": lambda m, x, n: m.round(x / 3, n),
        "stack": lambda m, x, n: m.stack([x, x], axis=n),
        "diff": lambda m, x, n: m.diff(x, n),
        "pad": lambda m, x, n: m.pad(x, n),
        "tril": lambda m, x, n: m.tril(x * 2, n),
        "tensordot": lambda m, x, n: m.tensordot(x, x * 2, ([n], [n])),
        "tile": lambda m, x, n: m.tile(x, n),
        "split": lambda m, x, n: m.split(x, n + 1, axis=1)[0],
    }
    for name, make in made.items():
        wanted = [make(np, values, n) for n in counts]
        for numbers in (which, [which[k] + 0 for k in range(4)]):  # in memory, then pending
            found = [make(wf, x, n) for n in numbers]
            for mine, theirs in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(mine), theirs, err_msg=name, strict=True)


@pytest.mark.parametrize(
    ("program", "shape"),
    [
        (lambda xp, x, out: x.cumsum(0, None, out), (30, 30)),
        (lambda xp, x, out: xp.cumsum(x, 1, None, out), (30, 30)),
        (lambda xp, x, out: x.round(1, out), (30, 30)),
        (lambda xp, x, out: xp.matmul(x, x, out), (30, 30)),
        (lambda xp, x, out: xp.dot(x, x, out), (30, 30)),
        (lambda xp, x, out: x.dot(x, out), (30, 30)),
        (lambda xp, x, out: xp.concatenate((x, x), 0, out), (60, 30)),
        (lambda xp, x, out: xp.outer(x[0], x[1], out), (30, 30)),
        (lambda xp, x, out: xp.clip(x, 0, 2, out), (30, 30)),
        (lambda xp, x, out: xp.ptp(x, 1, out), (30,)),
        (lambda xp, x, out: x.sum(0, None, out), (30,)),
        (lambda xp, x, out: x.std(0, None, out), (30,)),
        (lambda xp, x, out: x.max(0, out), (30,)),
        (lambda xp, x, out: x.take([1, 0], 0, out), (2, 30)),
        (lambda xp, x, out: xp.add.reduce(x, 0, None, out), (30,)),
        (lambda xp, x, out: xp.add(x, 1.0, out), (30, 30)),
    ],
)
def test_outputs_are_passed_by_position(program: Any, shape: tuple[int, ...]) -> None:
    out, wanted = wf.zeros(shape), np.zeros(shape)
    for k in range(4):
        values = np.random.default_rng(k).standard_normal((30, 30))
        x = wf.asarray(values)
        wf.evaluate(x, out)
        assert program(wf, x, out) is out
        program(np, values, wanted)
        np.testing.assert_allclose(np.asarray(out), wanted, rtol=1e-12)
        out = wf.asarray(np.asarray(out).copy()) if k == 2 else out


@pytest.mark.parametrize("name", ["mean", "std", "var"])
def test_methods_of_numpy_arrays_leave_no_sums_in_outputs(name: str) -> None:
    values, out = np.arange(12.0).reshape(3, 4), wf.zeros(4)
    for _ in range(2):
        with pytest.raises(TypeError, match="call weft.mean, weft.std or weft.var"):
            getattr(values, name)(0, out=out)
    assert not np.asarray(out).any()
    assert getattr(np, name)(values, 0, out=out) is out
    np.testing.assert_allclose(np.asarray(out), getattr(values, name)(0))
    assert values.sum(0, out=out) is out
    np.testing.assert_array_equal(np.asarray(out), values.sum(0))


def test_recording_again_makes_nothing_new() -> None:
    x, y = wf.ones((4, 4)), wf.ones((4, 4))
    wf.evaluate(x, y)

    def step() -> Any:
        z = wf.concatenate([x, wf.where(y > 0, x, y), wf.roll(x, 1)])
        return wf.evaluate(wf.pad(z, 1).std(axis=0) @ wf.tril(wf.clip(x, 0.0, 1.0)).repeat(2)[:6])

    for _ in range(4):
        step()
    known = len(INTERNED)
    step()
    assert len(INTERNED) == known


@pytest.mark.cpu
def test_numpy_integers_are_found_again() -> None:
    x = wf.evaluate(wf.ones((400, 300)) * 2)
    made = []
    for _ in range(3):
        y, _ = np.unravel_index(1234, x.shape)
        made.append(wf.roll(x, (y, 1), (0, 1))._storage.expr)
    assert made[0] is made[1] is made[2] and any(key[0] == "roll" for key in INTERNED if isinstance(key, tuple))


def test_threads_and_devices_have_their_own() -> None:
    def program() -> Any:
        x = wf.arange(6.0)
        return wf.concatenate([x, wf.roll(x, 2)])

    wanted = np.concatenate([np.arange(6.0), np.roll(np.arange(6.0), 2)])
    for device in ("cpu", "simt", "cpu", "simt"):
        with wf.device(device):
            found = program()
        assert found.device.name == device
        np.testing.assert_array_equal(found, wanted)
