"""Tests that views and assignments behave as in NumPy, although evaluation is lazy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.validation import NUMPY_VERSION


def both(program: Callable[[Any], Any]) -> None:
    """Run a program on NumPy and on weft, and compare all results."""
    wanted, found = program(np), program(wf)
    for a, b in zip(
        wanted if isinstance(wanted, tuple) else (wanted,), found if isinstance(found, tuple) else (found,), strict=True
    ):
        np.testing.assert_array_equal(np.asarray(b), a)


def test_overlapping_read_and_write() -> None:
    def program(xp: Any) -> Any:
        x = xp.arange(10.0)
        x[1:] += x[:-1]
        y = xp.arange(12.0).reshape(3, 4)
        y[:, 1:] = y[:, :-1]
        z = xp.arange(16.0).reshape(4, 4)
        z += z.T
        w = xp.arange(8.0)
        w[::-1] = w
        return x, y, z, w

    both(program)


def test_captured_values_keep_their_contents() -> None:
    def program(xp: Any) -> Any:
        x = xp.zeros(5)
        before = x + 1
        first = x[0]
        view = x[1:3]
        x[:] = 7
        after = x * 2
        view[0] = 9
        return before, first + 0, view, x, after

    both(program)


def test_what_is_a_view_and_what_is_a_copy() -> None:
    def program(xp: Any) -> Any:
        x = xp.arange(20.0).reshape(4, 5)
        column, corner = x[1:, 1], x[:3, :3]
        copies = column.ravel(), corner.ravel(), xp.ravel(x.T), xp.ravel(x, order="F")
        views = (
            xp.einsum("ij->ji", x),
            xp.einsum("ii->i", corner),
            column.reshape(-1),
            x.ravel(),
            xp.diag(x),
            xp.diagonal(x),
            xp.diag(corner, 1),
        )
        x[...] = -1
        return (*copies, *views)

    both(program)


def test_numbers_are_not_changed_through_views() -> None:
    def program(xp: Any) -> Any:
        x = xp.arange(5.0)
        numbers = x.sum(), x.max(), x[3]
        for number in numbers:
            for view in (
                number.reshape(-1),
                number[None],
                xp.expand_dims(number, 0),
                xp.atleast_1d(number),
                xp.ravel(number),
            ):
                view[...] = -1
                view += 1
        written, filled = xp.zeros(()), xp.zeros(())
        written[()] = 3
        filled[...] = 4
        return (*numbers, x, written, filled, xp.pad(xp.asarray(5), 1))

    both(program)


def test_sliding_windows_are_views() -> None:
    def program(xp: Any) -> Any:
        x = xp.arange(20.0).reshape(4, 5)
        seen = xp.lib.stride_tricks.sliding_window_view
        found = seen(x, (2, 3)), seen(x, 3, -1), seen(x[::2, ::-1], (2, 2), (1, 1)), seen(x, (2, 0), (0, 1))
        means = found[0].sum((-1, -2))
        x[1] *= 2
        for windows in found[:3]:
            with pytest.raises(ValueError):
                windows[0] = 1
            with pytest.raises(ValueError):
                windows += 1
        for wrong in (3,), ((2, 6),), ((2, 2), 0), ((2, -1),), (2, 5):
            with pytest.raises(ValueError):
                seen(x, *wrong)
        return (*found, means)

    both(program)


def test_arrays_without_axes_have_the_first_and_the_last_one() -> None:
    def program(xp: Any) -> Any:
        x = xp.asarray(3)
        folds = [x.argmax(0), x.argmin(-1), x.max(0), x.sum(-1), xp.ptp(x, axis=0), xp.cumsum(x, 0)]
        return (*folds, xp.take(x, xp.asarray([0, 0]), 0), xp.repeat(x, 2, 0))

    both(program)


def test_odd_arguments() -> None:
    def program(xp: Any) -> Any:
        x = xp.arange(6)
        bools = (x > 2) ** 2, (x.max() > 2) ** 2
        assert [found.dtype for found in bools] == [np.int8, np.int64]
        orders = xp.reshape(x.reshape(2, 3), -1, order="F"), xp.reshape(x, (-1, 2), order="F")
        parts = xp.real(x + 1j), xp.imag(x + 1j), xp.ptp(x + 2j, axis=0)
        return (*bools, *orders, *parts, xp.add.reduceat(x, [0, 3, 2]))

    both(program)


def test_destinations_of_other_dtypes() -> None:
    def program(xp: Any) -> Any:
        x = xp.arange(6)
        host, masked = np.zeros(3), xp.ones(3, "complex64")
        xp.add.at(host, x % 3, x)
        xp.putmask(masked, masked > 0, xp.asarray([3], "uint64").max())
        large, kept = xp.asarray([250], "uint8") * xp.asarray([1], "uint64"), xp.arange(-2, 4).astype("int8")
        xp.copyto(kept, large, where=kept > 1)  # (the common dtype of uint64 and int8 is a float)
        halves, sums, running = xp.ones((2, 3), xp.float16), xp.zeros(2, int), xp.zeros((2, 3), int)
        xp.sum(halves + 0.25, 1, out=sums)  # sums are cast to integers
        xp.cumsum(halves + 0.5, 1, out=running)
        xp.cumsum(halves, 0, out=halves)
        counts, lowered, turned = xp.zeros(3, int), xp.ones(3, int), xp.arange(4)
        xp.add.at(counts, x % 3, 0.5)  # each addition is cast back to an integer, and so adds nothing
        xp.add.at(lowered, x % 2, xp.asarray(-0.25))
        xp.negative.at(turned, [1, 1, 2])
        complexes = x[:4].reshape(2, 2) + 1j
        xp.max(complexes, 0, out=complexes[0])
        taken = xp.zeros(3, "uint8")
        xp.take(x + 0.5, [1, 2, 3], out=taken)
        return host, masked, kept, sums, running, halves, taken, counts, lowered, turned, complexes

    both(program)


@pytest.mark.parametrize("choose", [lambda xp, x: xp.where(x > 1, -1, x), lambda xp, x: xp.where(x > 1, x, 300)])
def test_choices_of_ints_that_the_dtype_cannot_hold(choose: Any) -> None:
    """Test ``where`` with ints outside of the dtype's range. NumPy 2.5 and later versions reject them. With older versions, they wrap around."""
    x = np.arange(3, dtype="uint8")
    if NUMPY_VERSION >= (2, 5):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            choose(wf, wf.asarray(x))
    else:
        found = choose(wf, wf.asarray(x))
        assert found.dtype == x.dtype and found.tolist() == choose(np, x).tolist()


def test_every_alias_sees_a_write() -> None:
    def program(xp: Any) -> Any:
        x = xp.arange(24.0).reshape(2, 3, 4)
        flat, turned, row = x.reshape(-1), x.transpose(2, 0, 1), x[1]
        row[::2, 1:3] = -1
        turned[0] *= 10
        flat[5:7] += 0.5
        return x, flat, turned, row

    both(program)


def test_one_axis_is_transposed_by_its_number() -> None:
    assert wf.arange(4.0).transpose(0).shape == wf.transpose(wf.arange(4.0), -1).shape == (4,)
    with pytest.raises(ValueError):
        wf.ones((2, 3)).transpose(0)


def test_splits_need_the_axis_that_they_cut() -> None:
    for cut, array in ((wf.hsplit, wf.asarray(1.0)), (wf.vsplit, wf.ones(4))):
        with pytest.raises(ValueError, match="only works on arrays of"):
            cut(array, 2)
    assert [part.shape for part in wf.hsplit(wf.ones(4), 2)] == [(2,), (2,)]


def test_bounds_of_slices_are_whole_numbers() -> None:
    with pytest.raises(TypeError):
        wf.arange(6.0)[1.5:3]
    assert wf.arange(6.0)[np.int8(1) : wf.asarray(3)].shape == (2,)


def test_masks_and_index_arrays() -> None:
    def program(xp: Any) -> Any:
        x = xp.arange(20.0).reshape(4, 5)
        x[x > 12] = 0
        x[[0, 2], 1:3] = 5
        x[[3, 3], [0, 0]] = xp.asarray([1.0, 2.0])
        y = x[[1, -1]][:, ::-1]
        x[x == 5] += 1
        return x, y, x[x > 3], x[:, [0, 0, 4]], x[xp.asarray([[0, 1], [2, 3]]), 1]

    both(program)


def test_out_and_where() -> None:
    def program(xp: Any) -> Any:
        x, out = xp.arange(6.0), xp.zeros(6)
        same = xp.add(x, 1, out=out)
        xp.multiply(x, 2, out=out, where=x > 2)
        assert same is out
        return out, x.sum(where=x > 1), xp.add.reduce(x), xp.maximum.accumulate(x), xp.add.outer(x, x)

    both(program)


def test_copies_are_independent() -> None:
    def program(xp: Any) -> Any:
        x = xp.arange(4.0)
        y, z, w = x.copy(), copy.deepcopy(x), pickle.loads(pickle.dumps(x))
        x[0] = 100
        y[1] = 50
        return x, y, z, w

    both(program)


def test_a_chain_of_many_operations() -> None:
    x = wf.zeros(3)
    for _ in range(20_000):
        x = x + 1
    assert float(x[0]) == 20_000
    assert "20000" in repr(x)


def test_loops_without_evaluation_hold_little() -> None:
    x = wf.zeros(1 << 17)
    device = x.device
    for _ in range(2000):
        x += 1
    assert device.memory.held <= 3 * x.nbytes + (20 << 20)  # type: ignore[attr-defined]
    assert float(x[-1]) == 2000


def test_scalars_behave_as_numpys() -> None:
    x = wf.arange(5)
    s = x.sum()
    s += 0.5
    assert float(s) == 10.5
    assert {x[1]: "one"}[1] == "one"
    assert [10, 20, 30][wf.asarray(1)] == 20
    assert f"{x.mean():.2f}" == "2.00"
    assert bool(x[0] == 0)


ERRORS: list[tuple[str, Callable[[Any], Any]]] = [
    ("shapes", lambda xp: xp.zeros(3) + xp.zeros(4)),
    ("assignment", lambda xp: xp.zeros(3).__setitem__(slice(None), xp.zeros(4))),
    ("axis", lambda xp: xp.zeros((2, 3)).sum(axis=2)),
    ("index", lambda xp: xp.zeros(3)[3]),
    ("too many indices", lambda xp: xp.zeros(3)[0, 0]),
    ("index array", lambda xp: xp.zeros(3)[xp.asarray([0, 5])]),
    ("mask", lambda xp: xp.zeros(3)[xp.asarray([True, False])]),
    ("float index", lambda xp: xp.zeros(3)[xp.asarray([0.5])]),
    ("reshape", lambda xp: xp.zeros(6).reshape(4)),
    ("in place", lambda xp: xp.arange(3).__iadd__(0.5)),
    ("matmul", lambda xp: xp.zeros((2, 3)) @ xp.zeros((2, 3))),
    ("empty max", lambda xp: xp.zeros(0).max()),
    ("negative power", lambda xp: xp.arange(3) ** -1),
    ("negative power by name", lambda xp: xp.power(xp.arange(3), -2)),
    ("negative power in place", lambda xp: xp.arange(3).__ipow__(-2)),
    ("negative powers", lambda xp: xp.arange(3) ** np.array([1, -1, 2])),
    ("negative powers of a number", lambda xp: xp.power(2, np.array([1, -1, 2]))),
    ("bitwise on floats", lambda xp: xp.zeros(3) & 1),
    ("broadcast view", lambda xp: xp.broadcast_to(xp.zeros(3), (2, 3)).__setitem__(0, 1)),
    ("truth", lambda xp: bool(xp.zeros(3))),
    ("len", lambda xp: len(xp.asarray(1.0))),
    ("fold of bits of floats", lambda xp: xp.bitwise_xor.reduce(xp.zeros(3))),
    ("running fold of bits of floats", lambda xp: xp.bitwise_xor.accumulate(xp.zeros(3))),
    ("reshape in memory's order", lambda xp: xp.zeros((2, 3)).reshape(-1, order="K")),
    ("overflow", lambda xp: xp.zeros(3, dtype="uint8") + 300),
    ("concatenate", lambda xp: xp.concatenate([xp.zeros((2, 2)), xp.zeros((3, 3))])),
    ("transpose", lambda xp: xp.zeros((2, 3)).transpose(0, 0)),
]


VIEWS = [
    "x",
    "x.T",
    "x[::-1].T",
    "x.transpose(1, 0, 2)",
    "x[:, ::2].T",
    "x.transpose(2, 0, 1)[::-1]",
    "x[:, :, None].T",
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("order", list("CFAKcfak"))
def test_orders(view: str, order: str) -> None:
    values = np.arange(24).reshape(2, 3, 4)
    wanted, found = eval(view, {"x": values}), eval(view, {"x": wf.asarray(values)})
    np.testing.assert_array_equal(found.ravel(order), wanted.ravel(order))
    np.testing.assert_array_equal(found.flatten(order), wanted.flatten(order))
    if order in "CFcf":
        np.testing.assert_array_equal(found.reshape(8, -1, order=order), wanted.reshape(8, -1, order=order))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", ["fmax", "fmin"])
def test_folds_that_skip_what_is_no_number_where_nothing_is_one(name: str, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-3, 3, (40, 70)).astype(dtype)
    x[0], x[:, 1], x[1, :3] = np.nan, np.nan, np.nan
    for axis in (0, 1, None):
        wanted = getattr(np, name).reduce(x, axis)
        np.testing.assert_array_equal(getattr(wf, name).reduce(wf.asarray(x), axis), wanted)
    wanted = getattr(np, name).accumulate(x, 1)
    np.testing.assert_array_equal(getattr(wf, name).accumulate(wf.asarray(x), 1), wanted)
    assert wf.asarray([True]).conj().dtype == bool


def test_numbers_of_complex_arrays_and_rounded_bools() -> None:
    with pytest.warns(np.exceptions.ComplexWarning):
        assert int(wf.asarray([3 + 4j])[0]) == 3
    with pytest.warns(np.exceptions.ComplexWarning):
        assert float(wf.asarray([3 + 4j])[0]) == 3.0
    for out in (wf.zeros(2), np.zeros(2)):
        with pytest.warns(np.exceptions.ComplexWarning):
            wf.add(wf.asarray([3 + 4j, 1]), 1, out=out, casting="unsafe")
        assert out.tolist() == [4, 2]
    assert wf.round(wf.asarray([True, False])).dtype == np.float16
    with pytest.raises(TypeError, match="decimals"):
        wf.round(wf.asarray([True]), 1)
    assert wf.repeat(wf.zeros((0, 3)), [], 0).shape == (0, 3)


@pytest.mark.parametrize(("name", "program"), ERRORS, ids=[name for name, _ in ERRORS])
def test_errors_are_numpys_and_come_at_once(name: str, program: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception) as wanted:
        program(np)
    with pytest.raises(type(wanted.value)):
        program(wf)


def test_what_kills_processes_elsewhere() -> None:
    least = np.iinfo(np.int32).min
    x = wf.asarray(np.array([least, 7, -7, 0], np.int32))
    y = wf.asarray(np.array([-1, 0, 2, 0], np.int32))
    np.testing.assert_array_equal(x // y, [least, 0, -4, 0])
    np.testing.assert_array_equal(x % y, [0, 0, 1, 0])
    floats = wf.asarray([np.nan, np.inf, -np.inf, 1e20, -3.9])
    np.testing.assert_array_equal(floats.astype("int32"), [0, 2**31 - 1, -(2**31), 2**31 - 1, -3])
    np.testing.assert_array_equal(floats.astype("uint8"), [0, 255, 0, 255, 0])
    np.testing.assert_array_equal(wf.asarray([1, 2]) << wf.asarray([70, 1]), [0, 4])


def test_a_failed_evaluation_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    start = wf.arange(8.0)  # (the result would reuse its memory)
    x = start + 1
    device = x.device
    with monkeypatch.context() as patch:
        patch.setattr(type(device), "allocate", lambda self, n: (_ for _ in ()).throw(wf.OutOfMemoryError("cpu", n, 0)))
        with pytest.raises(MemoryError):
            wf.evaluate(x)
    np.testing.assert_array_equal(x, np.arange(8.0) + 1)
