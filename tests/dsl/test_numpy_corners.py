"""Tests that corner cases have the same results on NumPy and on weft.

Many of the cases are from NumPy's own tests.
"""

from __future__ import annotations

import functools
import gc
import pickle
import warnings
import weakref
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.immediate.host_values import values_of
from weft.dsl.script.numpy_face import NUMPY
from weft.fusion import current_epoch
from weft.runtime import override


def zero_axes_in_place(m: Any) -> list[Any]:
    found = []
    for x in (m.zeros(()), m.ones(()), m.full((), 2.0), m.zeros_like(m.array(1.0))):
        y = x
        y += 1
        found.append(float(x))
    x = m.array(5.0)
    number = x[()]
    x[...] = 6
    return [*found, float(number), float(x)]


def parts_with_infinities(m: Any) -> Any:
    a = m.zeros(6, dtype=complex)
    a.real += [0, 1, np.nan, np.inf, 2, 3]
    a.imag += [np.nan, np.inf, 0, 1, -np.inf, 5]
    a[:1].imag = [-0.0]
    return [str(v) for v in a]


def orders(m: Any) -> list[Any]:
    across = m.ones((3, 2)).T
    made = [
        m.zeros((2, 3), order="F"), m.full((2, 3), [1, 2, 3], order="F"), m.array([[1, 2], [3, 4]], order="F"),
        m.asfortranarray(m.arange(6).reshape(2, 3)), m.arange(6).reshape(2, 3).copy(order="F"), across.copy("F"),
        across.copy("K"), across.copy(), m.zeros_like(across), m.ones_like(across, order="C"), across,
        m.asarray(m.arange(6).reshape(2, 3), order="F"), m.zeros(3, order="F"),
        m.eye(4, 3, k=-1, order="F"),
    ]  # fmt: skip
    return [(a.flags["F"], a.flags.c_contiguous, a.strides, a.sum().item()) for a in made if a.size < 20]


def positional_out(m: Any) -> list[Any]:
    holds, best = m.zeros(3, dtype=bool), m.zeros((), dtype=int)
    m.isposinf(m.array([1.0, np.inf, 0]), holds)
    m.nanargmax(m.array([1.0, 5, 2]), None, best)
    middle = m.zeros(())
    m.percentile(m.arange(10.0), 50, out=middle)
    return [holds.tolist(), int(best), float(middle)]


def polynomials(m: Any) -> list[Any]:
    p, q = m.poly1d([1, 2, 3.0]), m.poly1d([3.0, 2, 1])
    p[3] = 4
    shown = [str(f) for f in (p * q, p + q, p - q, p**2, -p, p(q), p.deriv(), 2 * p, m.polydiv(p, q)[0])]
    return [*shown, repr(p), len(p), p == q, p[1], m.asarray(p).tolist(), p(m.arange(3.0)).tolist()]


def keywords(m: Any) -> list[Any]:
    x = m.array([[1, 2, 5], [1, 6, 11]])
    return [
        m.average(x, axis=0, weights=[1, 3], keepdims=True).tolist(),
        m.average(x, weights=x, keepdims=True).shape,
        m.size(m.ones((2, 3, 4)), (0, 1)),
        m.median(m.array([3.0, 1, 2]), overwrite_input=True).item(),
        m.array(object=[1, 2]).tolist(),
        m.moveaxis(m.ones((1, 2, 3)), range(2), range(1, 3)).shape,
        m.arange(3, dtype="i2").byteswap().tolist(),
        m.real(3), m.imag(2 + 1j), type(m.real(2.5)),
        m.nextafter(m.array([1.0, 0.0], dtype="f2"), m.array([2.0, 1.0], dtype="f2")).tolist(),
        str(m.sinc(m.array([1j, 0.5], dtype="F")).dtype),
        np.asarray(m.arange(4).view("S8")).tolist(),
        np.asarray(m.arange(3).view("m8[s]")).tolist(),
    ]  # fmt: skip


def large_numbers(m: Any) -> list[Any]:
    a, huge = m.arange(3, dtype="i4"), 10**30
    compared = [a < huge, a > -huge, a == huge, a != huge, a >= huge, huge > a]
    floats = m.array([1.0, 1e31, np.inf])
    compared += [floats > huge, floats == huge, floats < huge, floats != 10**31, m.array([1e30], dtype="f4") < 10**31]
    return [*(c.tolist() for c in compared), (m.arange(3.0) + 2**100).tolist(), float(m.add(1.5, 2**100))]


def objects_with_arrays(m: Any) -> list[Any]:
    class Held:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return m.arange(3)

    return [m.intersect1d(Held(), Held()).tolist(), (m.asarray(Held()) + 1).tolist(), m.sum(Held()).item()]


def beside_objects(m: Any) -> list[Any]:
    x, day, half = m.arange(2), np.datetime64("2026-01-01"), Fraction(1, 2)
    halves = np.array([half, 1], dtype=object)
    found = [
        x + half, half * x, x**half, x < half, x + range(2), range(2) - x, x + day, day + x, x * np.timedelta64(1, "D"),
        x + np.longdouble(1), x * halves, halves * x, x == object(),
    ]  # fmt: skip
    y = m.zeros(2)
    z = y
    y += range(2)
    return [*(str(np.asarray(v).tolist()) for v in found), z.tolist()]


def promoted(m: Any) -> list[Any]:
    single, whole, uneven = (
        m.array([1.5, 2.25, 7.7], dtype="f4"),
        m.array([200, 100], dtype="u1"),
        m.arange(3) * (1 + 1j),
    )
    found = [
        *(m.sinc(m.ones(2, dtype=code)) for code in "?bHif"), m.concatenate([single, 1.0], axis=None),
        m.append(single, 3), m.var(single, dtype="i8"), m.var(uneven, dtype="f4"), m.var(single, dtype="c8"),
        m.sum(whole, out=m.zeros((), dtype="u1")), m.cumsum(single, out=m.zeros(3, dtype="i4")),
        m.add.reduce(single, out=m.zeros((), dtype=int)), m.mean(whole, out=m.zeros((), dtype="i4")),
        m.sum(m.full(1000, 0.1, dtype="f4"), out=m.zeros(())), m.astype(np.int64(3), "f4"), m.cumulative_sum(3),
        m.eye(2, k=2**70), m.bitwise_count(2**64 - 1), m.less(1, 2**200), m.logaddexp.reduce([]),
    ]  # fmt: skip
    return [(str(v.dtype), np.round(np.asarray(v, dtype=complex), 5).tolist()) for v in found]


def repeated(m: Any) -> list[Any]:
    n = m.arange(5)[2]
    return [
        [1, 2] * n,
        n * (1,),
        "ab" * n,
        [0] * (m.arange(3).max() + 1),
        ([1] * m.array(2)).tolist(),
        m.tile(m.arange(2), n).tolist(),
        (n + [1]).tolist(),
    ]


def averages(m: Any) -> list[Any]:
    x, w, y = m.arange(12).reshape(3, 4), m.array([1, 2, 3], dtype="f4"), m.arange(24).reshape(2, 3, 4)
    found = [
        *m.average(x, axis=0, weights=w, returned=True), m.average(x, weights=x, axis=(0, 1), keepdims=True),
        m.average(y, axis=(2, 0), weights=m.arange(8).reshape(4, 2)), m.average([1, 2], weights=[3, 1j]),
        *m.average(x, axis=1, returned=True), m.average(x.astype("f4"), axis=0, weights=w), m.take(x, [True, False]),
        m.take(x, []), m.full_like(x, 2 + 0j),
    ]  # fmt: skip
    return [(str(v.dtype), v.shape, np.asarray(v).round(4).tolist()) for v in found]


def narrow_indices(m: Any) -> list[Any]:
    """Return results for indices whose dtype cannot represent the length of the axis."""
    x, few = m.arange(600).reshape(300, 2), np.array([1, 200, 3], "u1")
    near, whole = np.array([-1, 100, -128], "i1"), np.array([3, 2**64 - 1], "u8")
    found = [x[few], x[near, 0], m.take(x[:, 0], m.asarray(near), mode="wrap"), m.take(x, few, axis=0, mode="clip")]
    found += [m.take(x[:7, 0], k, mode="wrap") for k in (few, m.asarray(few), m.asarray(whole), np.uint8(200), 200)]
    found += [m.take_along_axis(x, few[:, None], 0), m.delete(x[:, 1], near).sum(), m.insert(x[:3], few[:1], 7)]
    for key in (few, near, m.asarray(few)):
        y = m.zeros(300, dtype=int)
        y[key] += 5
        m.add.at(y, key, m.arange(3))
        y.put(key, [7, 8], "wrap")
        y.put(key[:1], 9)
        y.put([[1, 2]], m.asarray([[3], [4]]))
        found.append(y)
    return [np.asarray(v).tolist() for v in found]


def rounded(m: Any) -> list[Any]:
    z = m.array([0.12345 - 1.5j, complex(np.inf, 0.25), complex(np.nan, 2.345)])
    found = [m.round(z, k) for k in (0, 1, 3, -1, 400)] + [z.astype("c8").round(2), m.round(m.array([1.5]), -400)]
    found += [m.var(m.arange(6.0), ddof=d, where=m.arange(6) > 1) for d in (0.5, 1)]
    found += [m.std(m.arange(6), dtype="i4"), m.nanstd(m.arange(6), dtype="u1"), m.std(m.ones((2, 3)), 0, dtype="f4")]
    return [(str(v.dtype), str(v)) for v in found]


def of_narrow_dtypes(m: Any) -> list[Any]:
    x, holds = m.arange(3, dtype="i1"), m.array([True, False, True])
    found = [m.select([x > 0], [x], 300), m.select([x > 0, holds], [x, -2], 7.5), m.polyval([True, False], holds)]
    found += [m.polyval([1, 2], x), m.pad(x, 1, constant_values=-3), m.pad(x, 1, constant_values=2.7)]
    found += [m.pad(x.astype("u1"), 1, constant_values=-1)]
    return [(str(v.dtype), v.tolist()) for v in found]


def byte_orders(m: Any) -> list[Any]:
    x = m.arange(3)
    swapped = [x.astype(">i4"), m.array([1, 2], dtype=">i2"), m.zeros(2, ">f8"), x.view(">i8"), m.asarray(x, ">f4")]
    mixed = [x + swapped[0], np.array([1, 2, 3], ">i4") * x, m.asarray(np.array([1.5], ">f4")) + 1, m.sum(swapped[1])]
    ragged = m.array([[x, x + 1], 2], dtype=object)
    return [
        *(str(a.dtype) for a in swapped), *(a.tobytes() for a in swapped), *(a.tolist() for a in (*swapped, *mixed)),
        len(ragged), len(ragged[0]),
    ]  # fmt: skip


def masks_without_axes(m: Any) -> list[Any]:
    found = []
    for key in (
        np.array(True),
        np.array(False),
        m.asarray(np.array(True)),
        m.asarray(np.array(False)),
        (np.array(True), 0),
    ):
        for shape in ((3,), (2, 2)):
            x = m.zeros(shape)
            x[key] = [5]
            x[key] += 1
            found += [x.tolist(), x[key].shape]
    return found


def outputs_of_positions(m: Any) -> list[Any]:
    x, holds = m.array([[3, 1], [2, 7]], dtype="f4"), m.zeros(2, dtype=bool)
    return [m.argmax(x, axis=1, out=holds) is holds, holds.tolist(), m.argmin(x, out=m.zeros((), dtype="i1")).item()]


def of_themselves(m: Any) -> list[Any]:
    x = m.arange(4)
    annotations = [m.ndarray[Any, Any].__args__, m.typing.NDArray[np.float32] | None, m.typing.ArrayLike | None]
    ufuncs = [m.add.types, m.add.ntypes, m.add.signature, m.hypot.identity, m.logaddexp.identity, m.maximum.identity]
    shared = [m.shares_memory(x, x[1:]), m.may_share_memory(x, x.copy()), m.shares_memory(m.arange(4), m.arange(4))]
    shared.append(
        m.may_share_memory(np.asarray(x), x)
    )  # (if memory may be shared, readers that must not write to the caller's array copy it)
    return [annotations, ufuncs, shared]


PROGRAMS = (
    beside_objects, promoted, repeated, averages, byte_orders, masks_without_axes, outputs_of_positions, narrow_indices, rounded, of_narrow_dtypes, of_themselves,
    zero_axes_in_place, parts_with_infinities, orders, positional_out, polynomials, keywords, large_numbers,
    objects_with_arrays,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_numpy(program: Callable[[Any], Any]) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        assert program(NUMPY) == program(np)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "reshape by bools": lambda m: m.reshape(m.ones((1, 1)), (True, -1)),
    "reshape to nothing": lambda m: m.reshape(m.arange(3)),
    "other bound": lambda m: m.clip(m.arange(3), a_max=2),
    "two corrections": lambda m: m.var(m.arange(3.0), ddof=1, correction=0),
    "rollaxis": lambda m: m.rollaxis(m.ones((1, 2)), 0, 5),
    "kind of sort": lambda m: m.arange(3).sort(kind="nonsense"),
    "kind of partition": lambda m: m.arange(3).partition(1, kind="nonsense"),
    "diagonal": lambda m: m.eye(3).diagonal().__setitem__(0, 5),
    "broadcast": lambda m: m.broadcast_to(m.arange(3), (3,)).__setitem__(0, 5),
    "generator": lambda m: m.dstack(m.ones(2) for _ in range(2)),
    "repeated by a half": lambda m: [1] * (m.arange(3)[1] / 2),
    "weights of nothing": lambda m: m.average(m.arange(3), weights=[0, 0, 0]),
    "weights of another shape": lambda m: m.average(m.ones((2, 3)), weights=[1, 2, 3]),
    "weights of another length": lambda m: m.average(m.ones((2, 3)), axis=1, weights=[1, 2]),
    "indices of floats": lambda m: m.take(m.arange(3), m.ones(2)),
    "axes twice": lambda m: m.tensordot(m.ones((2, 3, 3)), m.ones((3, 3, 4)), axes=([1, 1], [0, 0])),
    "positions in halves": lambda m: m.argmax(m.arange(3), out=m.zeros((), dtype="f8")),
    "deviation in an output of integers": lambda m: m.std(m.ones((2, 3)), 0, out=m.zeros(3, dtype="i4")),
    "more axes than there are": lambda m: m.tensordot(m.ones(2), m.ones((2, 3))),
    "take of nothing": lambda m: m.take(m.arange(0), [0], mode="wrap"),
    "deviation in integers": lambda m: m.std(m.ones((2, 3)), 0, dtype="i4"),
    "choices of another kind": lambda m: m.select([m.ones(2) > 0] * 2, [m.ones(2, dtype="u1"), -3]),
    "padding too large": lambda m: m.pad(m.ones(2, dtype="i1"), 1, constant_values=300),
    "objects in place": lambda m: m.zeros(2).__imul__(Fraction(1, 2)),
    "objects": lambda m: m.zeros(2) + object(),
    "too large": lambda m: m.arange(3, dtype="u1") + 300,
    "read-only out": lambda m: m.choose([0, 1, 1], [m.arange(3)] * 3, out=m.broadcast_to(m.arange(3), (3,))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_by_numpy(name: str) -> None:
    with pytest.raises(Exception) as theirs:
        REFUSED[name](np)
    with pytest.raises(type(theirs.value)):
        REFUSED[name](NUMPY)


WARNED: dict[str, Callable[[Any], Any]] = {
    "mean of nothing": lambda m: m.mean(m.array([])),
    "variance of one": lambda m: m.var(m.ones(1), ddof=1),
    "cast": lambda m: m.array([1j]).astype(float),
    "assigned": lambda m: m.zeros(3).__setitem__(slice(1, None), m.array([1j, 2])),
    "gathered": lambda m: m.zeros(3).__setitem__(m.array([0]), m.array([1j])),
}


@pytest.mark.parametrize("name", WARNED)
def test_warns_at_the_users_line(name: str) -> None:
    with warnings.catch_warnings(record=True) as theirs, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        WARNED[name](np)
    with warnings.catch_warnings(record=True) as ours:
        warnings.simplefilter("always")
        WARNED[name](wf)
    assert theirs[0].category in [w.category for w in ours if w.filename == __file__]
    assert str(theirs[0].message) in [str(w.message) for w in ours]


def test_masks_are_not_lost() -> None:
    masked = np.ma.array([1.0, 2, 3], mask=[0, 1, 0])
    assert float(wf.mean(masked)) == 2 and float(wf.sum(masked)) == 4
    assert isinstance(wf.sqrt(masked), np.ma.MaskedArray)
    assert (wf.arange(3.0) + masked).tolist() == [1, None, 5]
    assert wf.asarray(masked).tolist() == np.asarray(masked).tolist()
    assert wf.sum(np.ma.array([1.0, 2])).item() == 3


def test_arrays_are_of_the_class_that_programs_ask_for() -> None:
    x = wf.arange(3)
    assert type(x) == NUMPY.ndarray and NUMPY.ndarray == np.ndarray and {NUMPY.ndarray: 1}[np.ndarray] == 1  # noqa: E721
    assert NUMPY.ndarray(3, "i4", b"abcdefghijkl").tolist() == np.ndarray(3, "i4", b"abcdefghijkl").tolist()


def test_functions_made_by_vectorize_take_arrays() -> None:
    @NUMPY.vectorize
    def double(x: Any) -> Any:
        """Return twice `x`."""
        return x * 2

    summed = NUMPY.vectorize(otypes=["f4"], signature="(n)->()")(lambda row: row.sum())
    found = double(wf.arange(3))
    assert isinstance(found, wf.Array) and found.tolist() == [0, 2, 4] and double.__doc__ == "Return twice `x`."
    assert isinstance(summed(wf.ones((2, 3))), wf.Array) and summed(wf.ones((2, 3))).tolist() == [3, 3]


def test_copies_by_a_texts_shape() -> None:
    with pytest.raises(ValueError, match=r"from shape \(2,3\) into shape \(4,\)"):
        wf.zeros(4)[:] = wf.ones((2, 3))


def parts_written_to(m: Any) -> list[Any]:
    a = m.arange(5) + 0j
    a.imag[0] = 3
    a.imag[2:] = 7
    part = a.real
    part += 1
    part *= 2
    part[3:] += 1
    a.imag.fill(4)
    a.real[a.real > 6] = 0
    a.imag -= 1
    inner = a[1:3]
    inner.real[:] = -1
    return [str(v) for v in a] + [(a.real * a.imag).sum().item(), a.real.dtype.name]


def written_by_a_function(m: Any) -> list[Any]:
    def tens(vector: Any, width: Any, axis: int, options: Any) -> None:
        vector[: width[0]] = 10
        vector[-width[1] :] = 10

    across = m.pad(m.ones((2, 2)), {-1: 1}, mode="edge")
    return [m.pad(m.arange(6).reshape(2, 3), 2, tens).tolist(), m.pad(m.arange(3), {0: (1, 2)}).tolist(), across.shape]


@pytest.mark.parametrize("program", (parts_written_to, written_by_a_function), ids=lambda f: f.__name__)
def test_what_is_written_arrives(program: Callable[[Any], Any]) -> None:
    assert program(NUMPY) == program(np)


@pytest.mark.parametrize("width", ["3", 1.5, -2, [(1, -1)], {0: -1}])
def test_pad_widths_that_numpy_refuses(width: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as theirs:
        np.pad(np.arange(3), width)
    with pytest.raises(type(theirs.value), match=str(theirs.value)):
        wf.pad(wf.arange(3), width)


def ufuncs_as_objects(m: Any) -> list[Any]:
    days = np.array(["2010-01-02", "1999-03-14"], dtype="M8[D]")
    total = m.add(2.0, 3.0, out=...)
    total += 1
    return [
        str(m.maximum.reduce(days)), m.maximum.accumulate(days).tolist(), float(total),
        m.power(1.5, 2.8, dtype=np.intp, casting="unsafe").item(), m.add(1, 2, sig="dd->d").item(),
        pickle.loads(pickle.dumps(m.sin)) is m.sin, pickle.loads(pickle.dumps(m.add)) is m.add,
    ]  # fmt: skip


def test_ufuncs_as_objects() -> None:
    assert ufuncs_as_objects(NUMPY) == ufuncs_as_objects(np)
    for m in (NUMPY, np):
        with pytest.raises(ValueError, match="second operand"):
            m.add.at(m.zeros(3), [0])


def test_numbers_are_equal_for_numpys_testing() -> None:
    for found, wanted in ((wf.arange(4)[2], 2), (wf.ones(3).sum(), np.float64(3)), (wf.mean(wf.ones(2)), 1.0)):
        assert np.isscalar(found)
        np.testing.assert_equal(found, wanted)
        np.testing.assert_equal(wanted, found)
    assert not np.isscalar(wf.ones(1)) and not np.isscalar(wf.array(1.0))
    with pytest.raises(AssertionError):
        np.testing.assert_equal(wf.arange(4)[2], 3)


REDUCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda m, x, out: m.sum(x, axis=0, out=out),
    "max": lambda m, x, out: x.max(0, out=out),
    "mean": lambda m, x, out: m.mean(x, 0, out=out),
    "std": lambda m, x, out: x.std(0, out=out),
    "argmax": lambda m, x, out: m.argmax(x, 0, out=out.astype(int)),
    "cumsum": lambda m, x, out: m.cumsum(x[:, 0], out=out),
    "any": lambda m, x, out: m.any(x, 0, out=out),
}


@pytest.mark.parametrize("shape", [(2, 4), (1, 4), (5,), ()], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_outputs_of_folds_have_their_shape(name: str, shape: tuple[int, ...]) -> None:
    # (NumPy 2.4 crashes if the output of cumsum is 0-d)
    for m in (np, NUMPY) if shape else (NUMPY,):
        with pytest.raises(ValueError, match="output|shape|size"):
            REDUCTIONS[name](m, m.ones((3, 4)), m.zeros(shape))


def written_in_place(m: Any) -> list[Any]:
    x, p, z = m.array([np.nan, 1, np.inf]), m.poly1d([1.0, 2]), m.array([1 + 2j, 3])
    given = m.nan_to_num(x, copy=False, posinf=7)
    p.coeffs += 1
    out = m.empty_like(z)
    return [given is x, x.tolist(), str(p), z.conjugate(out) is out, [str(v) for v in out], m.ones(2).conj().tolist()]


def test_written_in_place() -> None:
    assert written_in_place(NUMPY) == written_in_place(np)


def subclassed(m: Any) -> list[Any]:
    """Define subclasses of the array class of `m` (NumPy or weft), and return results of operations on their instances.

    One subclass has an extra attribute.
    """

    class Own(m.ndarray):  # type: ignore[misc]
        def __new__(cls, values: Any, unit: str) -> Any:
            made = m.asarray(values).view(cls)
            made.unit = unit
            return made

        def __array_finalize__(self, source: Any) -> None:
            self.unit = getattr(source, "unit", None)

        def __setitem__(self, key: Any, value: Any) -> None:
            super().__setitem__(key, 2 * value)

    class Plain(m.ndarray):  # type: ignore[misc]
        pass

    values = m.zeros(20_000)
    own, plain = Own(values, "m"), m.ndarray.__new__(Plain, (2, 3))
    own[1] = 5
    assert float(values[1]) == 10  # a view
    made = [own[:2], own + 1, m.ones(20_000) * own, m.sqrt(own), m.asanyarray(own), values.view(m.float64, Own), plain]
    kept = [type(each).__name__ + str(getattr(each, "unit", "")) for each in made]
    sorts = [
        isinstance(own, m.ndarray),
        issubclass(Own, m.ndarray),
        isinstance(m.zeros((20, 20)).view(m.matrix), m.matrix),
    ]
    return [kept, sorts, str(own), plain.shape, Own.__mro__[1] == np.ndarray, m.ndarray.sum(own[:3]).item()]


def test_subclasses_are_those_of_numpy() -> None:
    import weft.cuda  # noqa: F401  (it has its own method `view`)

    assert subclassed(NUMPY) == subclassed(np)


@pytest.mark.parametrize("size", [3, 20_000])
def test_methods_of_the_class_take_any_array(size: int) -> None:
    for x in (wf.arange(size), np.arange(size)):
        assert NUMPY.ndarray.sum(x).item() == sum(range(size)) and NUMPY.ndarray.__getitem__(x, 2) == 2
    with pytest.raises(AttributeError, match="absent"):
        _ = NUMPY.ndarray.absent


def test_functions_dispatch_on_arrays() -> None:
    show = functools.singledispatch(lambda value: "other")
    show.register(NUMPY.ndarray, lambda value: "array")
    assert [show(np.arange(3)), show(3)] == ["array", "other"]


def test_functions_are_not_kept_alive() -> None:
    class Doubles:
        def __call__(self, x: Any) -> Any:
            return 2 * x

    held = Doubles()
    alive = weakref.ref(held)
    assert NUMPY.frompyfunc(held, 1, 1)(np.arange(3)).tolist() == [0, 2, 4]
    del held
    gc.collect()
    assert alive() is None


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(
    "make",
    [NUMPY.asmatrix, NUMPY.ma.asarray, lambda x: NUMPY.ma.array(x, copy=False)],
    ids=["matrix", "masked", "not copied"],
)
def test_numpys_objects_share_the_memory_of_arrays(make: Callable[[Any], Any]) -> None:
    x = wf.zeros((2000, 10))
    made = make(x)
    x[0, 1], made[0, 2] = 5, 7
    assert (made[0, 1], float(x[0, 2])) == (5, 7)


@pytest.mark.parametrize("dtype", [[("re", "f8"), ("im", "f8")], "S16", ">f8"], ids=str)
def test_views_as_other_records_share_memory(dtype: Any) -> None:
    x = wf.zeros((2000, 2))
    x.view(dtype)[5] = np.ones((1, 2)).view(dtype)[0]
    assert float(x[5].sum()) == 2


def test_casts_of_the_same_values() -> None:
    if np.lib.NumpyVersion(np.__version__) < "2.4.0":
        pytest.skip("casting='same_value' is new in NumPy 2.4")
    assert wf.ones(20_000).astype(int, casting="same_value").dtype == int
    with pytest.raises(ValueError, match="same_value"):
        wf.full(20_000, 1.5).astype(int, casting="same_value")


WRONG_SHAPES: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda m: m.zeros((200, 300)).reshape(7, 8),
    "unknown length": lambda m: m.zeros((200, 300)).reshape(7, -1),
    "operands": lambda m: m.zeros((200, 300)) + m.zeros((300, 200)),
    "assigned": lambda m: m.zeros((200, 300)).__setitem__(0, m.zeros((4, 5))),
    "in place": lambda m: setattr(m.zeros((200, 300)).T, "shape", (-1,)),
}


@pytest.mark.parametrize("name", WRONG_SHAPES)
@pytest.mark.filterwarnings("ignore:Setting the shape")
def test_wrong_shapes_are_described_as_by_numpy(name: str) -> None:
    with pytest.raises((ValueError, AttributeError)) as theirs:
        WRONG_SHAPES[name](np)
    with pytest.raises(type(theirs.value)) as ours:
        WRONG_SHAPES[name](wf)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.cpu
@pytest.mark.parametrize("shape", [(100_000,), (50_000, 2)], ids=str)
def test_items_of_an_array_are_in_memory(shape: tuple[int, ...]) -> None:
    x = wf.ones(shape) * 2  # recorded
    total = sum(x)
    assert values_of(x) is not None and np.all(total == 2 * shape[0])
    assert not current_epoch().pending  # the additions are not recorded
    rows = iter(wf.ones((2, 50_000)) * 2)
    assert values_of(next(rows)) is None  # work on large rows is recorded, and fused with what computes them


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("immediate", [0, 1 << 14])
def test_powers_by_a_half_are_square_roots(dtype: type, immediate: int) -> None:
    values = np.array([-np.inf, -0.0, 4.0, np.nan, 3.0], dtype)
    with np.errstate(invalid="ignore"), override(immediate=immediate):
        for exponent in (0.5, dtype(0.5), dtype(2.0), 2):
            for found in (wf.power(wf.asarray(values), exponent), wf.asarray(values) ** exponent):
                wanted = np.power(values, exponent)
                assert found.dtype == wanted.dtype and np.array_equal(np.asarray(found), wanted, equal_nan=True)
                assert np.signbit(np.asarray(found)[1]) == np.signbit(wanted[1])
