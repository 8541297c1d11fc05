"""Tests of small arrays that native inner loops compute.

The loops have NumPy's bits, warnings and errors, and leak no references.
"""

from __future__ import annotations

import gc
import operator
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.array import Array
from weft.dsl.immediate import native_immediate, native_loops
from weft.dsl.immediate.native_operands_text import Mode
from weft.runtime import Builtin, override, python_function

IMMEDIATE = 16384
RNG = np.random.default_rng(5)

ARRAYS: dict[str, Callable[[], np.ndarray]] = {
    "vector": lambda: np.array([1.5, -0.0, 3.25, -4.0, 7.0]),
    "other": lambda: np.array([0.1, 2.0, -3.0, 1e-5, 11.0]),
    "zeros": lambda: np.zeros(5),
    "special": lambda: np.array([np.inf, np.nan, -1.0, 1e308, 5e-324]),
    "part": lambda: np.arange(15.0)[1:14:3][:5],
    "backwards": lambda: np.arange(5.0)[::-1],
    "matrix": lambda: np.arange(15.0).reshape(3, 5) + 0.5,
    "columns": lambda: np.arange(30.0).reshape(3, 10)[:, ::2],
    "rows": lambda: np.arange(30.0).reshape(6, 5)[::2],
    "transposed": lambda: np.arange(15.0).reshape(5, 3).T,
    "cube": lambda: np.arange(30.0).reshape(2, 3, 5),
    "integers": lambda: np.array([2**62, -1, 0, 7, 3]),
    "bytes": lambda: np.arange(5, dtype=np.uint8),
    "floats": lambda: np.arange(5, dtype=np.float32) / 3,
    "complex": lambda: np.array([1 + 2j, -3j, 0.5, 1e3 - 1j, 2]),
    "bool": lambda: np.array([True, False, True, True, False]),
    "one": lambda: np.array([2.5]),
    "none": lambda: np.zeros((0,)),
    "lone": lambda: np.array(2.5),
    "long": lambda: np.linspace(-2, 3, 1000),
}
NUMBERS: list[Any] = [
    2, -3, 0, 2**53 + 1, 2**70, 0.1, -0.0, 1e308, True, 1j, np.float64(0.1), np.float32(0.1), np.int64(9), np.uint8(200),
    np.complex128(1 + 1j), None, "text",
]  # fmt: skip
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.lt, operator.ge,
    operator.eq, operator.ne, operator.and_, operator.or_, operator.xor, operator.matmul,
]  # fmt: skip
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.iand]


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    native_immediate.install_native_code()
    yield


def outcome(work: Callable[[], Any]) -> Any:
    """Return the result of a call and its runtime warnings, or the type of its exception."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = work()
        except Exception as error:
            return type(error)
    values = np.asarray(found)
    heard = sorted(str(each.message) for each in told if issubclass(each.category, RuntimeWarning))
    return values.dtype, values.shape, values.tobytes(), heard


def same_where_immediate(ours: Callable[[], Any], theirs: Callable[[], Any], what: Any) -> None:
    """Assert that `ours` has the same result and warnings, or exception, as NumPy's `theirs`."""
    found, expected = outcome(ours), outcome(theirs)
    assert found == expected, what


def pairs() -> Iterator[tuple[str, Any]]:
    for name, made in ARRAYS.items():
        shape = made().shape
        for other, also in ARRAYS.items():
            if made().dtype == also().dtype and (shape == also().shape or also().shape in ((), (1,))):
                yield name, other


@pytest.mark.parametrize(
    "apply", [operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.ne]
)
def test_arrays_of_floats(apply: Any) -> None:
    for name, other in pairs():
        if ARRAYS[name]().dtype != np.float64:
            continue
        x, y = ARRAYS[name](), ARRAYS[other]()
        a, b = wf.asarray(x), wf.asarray(y)
        same_where_immediate(lambda: apply(a, b), lambda: apply(x, y), (name, other))  # noqa: B023


@pytest.mark.parametrize("apply", [operator.add, operator.sub, operator.mul])
@pytest.mark.parametrize("name", ["integers", "bytes", "floats"])
def test_arrays_of_other_dtypes(name: str, apply: Any) -> None:
    x = ARRAYS[name]()
    a = wf.asarray(x)
    same_where_immediate(lambda: apply(a, a), lambda: apply(x, x), name)


@pytest.mark.parametrize("apply", [operator.add, operator.sub, operator.mul, operator.truediv])
@pytest.mark.parametrize("name", ["vector", "special", "part", "matrix", "columns", "rows", "long"])
def test_numbers(name: str, apply: Any) -> None:
    x = ARRAYS[name]()
    a = wf.asarray(x)
    for number in NUMBERS:
        if isinstance(number, complex | np.float32 | np.complex128 | str | type(None)):
            continue
        same_where_immediate(lambda: apply(a, number), lambda: apply(x, number), number)  # noqa: B023
        same_where_immediate(lambda: apply(number, a), lambda: apply(number, x), number)  # noqa: B023


def test_numbers_beside_integers_and_complex_numbers() -> None:
    x, z = ARRAYS["integers"](), ARRAYS["complex"]()
    for number in (2, -3, 0.5, np.float64(0.1), np.int64(4), True):
        same_where_immediate(lambda: wf.asarray(x) * number, lambda: x * number, number)  # noqa: B023
        same_where_immediate(lambda: number + wf.asarray(z), lambda: number + z, number)  # noqa: B023


@pytest.mark.parametrize("apply", [operator.iadd, operator.isub, operator.imul, operator.itruediv])
def test_in_place(apply: Any) -> None:
    for name in ("vector", "part", "matrix", "columns", "backwards", "special", "long", "integers"):
        for other in (2.0, np.float64(0.3), 0.0, 3, "itself", "part of it"):
            if name == "integers" and (apply is operator.itruediv or type(other) is not int):
                continue
            results = []
            for module in (wf, np):
                whole = module.asarray(np.concatenate([ARRAYS[name]()] * 2))
                target = whole[: len(whole) // 2]
                value: Any = other
                if other == "itself":
                    value = target
                elif other == "part of it":
                    value = whole[1 : len(whole) // 2 + 1]
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    assert apply(target, value) is target
                results.append((np.asarray(whole).tobytes(), [str(each.message) for each in told]))
            assert results[0] == results[1], (name, other)


def test_in_place_needs_the_memory_for_itself() -> None:
    x = wf.asarray(np.arange(4.0))
    kept = x.numpy()
    x += 1.0
    assert kept.tolist() == [0, 1, 2, 3]
    assert x.tolist() == [1, 2, 3, 4]
    shown = wf.broadcast_to(wf.asarray(np.arange(3.0)), (2, 3))
    with pytest.raises(ValueError, match="read-only"):
        shown += 1.0


def test_ufuncs_and_numpys_ufuncs() -> None:
    for name in ("vector", "part", "matrix", "columns", "special", "floats", "integers"):
        x = ARRAYS[name]()
        a = wf.asarray(x)
        for row in ("negative", "absolute", "square", "isnan", "sign", "conjugate"):
            same_where_immediate(lambda: getattr(wf, row)(a), lambda: getattr(np, row)(x), row)  # noqa: B023
            same_where_immediate(lambda: getattr(np, row)(a), lambda: getattr(np, row)(x), row)  # noqa: B023
    x = ARRAYS["vector"]()
    a = wf.asarray(x)
    assert np.multiply(a, 2.0).tolist() == (x * 2.0).tolist()
    assert type(np.multiply(np.float64(2), a)) is Array
    for function in (wf.exp, np.exp):  # compiled: must have the bits of recorded operations
        found = [np.asarray(function(a)).tobytes() for _ in range(3)]
        with override(immediate=0):
            assert {np.asarray(wf.exp(wf.asarray(x))).tobytes()} == set(found)
    out = wf.zeros(5)
    assert wf.add(a, a, out) is out
    assert out.tolist() == (x + x).tolist()
    with pytest.raises(TypeError):
        wf.add(a)
    with pytest.raises(TypeError):
        wf.exp(a, a, a)


def test_errors_and_warnings_are_numpys() -> None:
    x, zero = wf.asarray(np.array([1.0, 0.0])), wf.asarray(np.zeros(2))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        x / zero
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.asarray(x / zero)[0] == np.inf
    with pytest.warns(RuntimeWarning, match="overflow"):
        x * 1e308 * 1e308
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        x /= zero
    assert x.tolist() == [1.0, 0.0] or np.isinf(x.tolist()[0])  # NumPy writes the result before it raises the error


@pytest.mark.parametrize("code", ["f4", "f8", "c8", "c16", "i8"])
def test_products_have_numpys_bits(code: str) -> None:
    for n in (0, 1, 2, 3, 7, 16, 33):
        for m in (1, 2, 5, 17):
            wide = RNG.standard_normal((2 * n + 1, 2 * m + 3)) * 3 + (1j if code[0] == "c" else 0)
            wide = wide.astype(code) if code[0] != "i" else (wide.real * 9).astype(code)
            whole, turned = (wf.asarray(each) for each in (wide, np.ascontiguousarray(wide.T)))
            some = [whole[:n, :m], whole[: 2 * n : 2, : 2 * m : 2], whole[:n, :m][::-1], turned.T[:n, :m]]
            for left in some:
                for right in some:
                    cases = [(left.T, right), (left[:, 0], right[:, -1]), (left[:, 0], right), (left.T, right[:, 0])]
                    for a, b in cases:
                        x, y = a._values, b._values  # (a copy could have other strides, and therefore other bits)
                        same_where_immediate(lambda: a @ b, lambda: x @ y, (n, m))  # noqa: B023
                        if x.ndim == y.ndim == 1 and code[0] != "i":
                            same_where_immediate(lambda: wf.dot(a, b), lambda: np.dot(x, y), (n, m))  # noqa: B023


def test_views_are_multiplied_where_they_lie() -> None:
    whole = RNG.standard_normal((20, 20))
    ours = wf.asarray(whole)
    for n in range(1, 20):
        for k in range(0, 20, 3):
            assert ours[k, :n] @ ours[:n, k] == whole[k, :n] @ whole[:n, k]
            assert wf.dot(ours[k, :n], ours[:n, k]) == np.dot(whole[k, :n], whole[:n, k])
            assert (ours[:n, :k] @ ours[:k, k]).tolist() == (whole[:n, :k] @ whole[:k, k]).tolist()
            assert type(ours[k, :n] @ ours[:n, k]) is np.float64


def test_references_are_exact() -> None:
    x, y = wf.asarray(np.arange(6.0)), wf.asarray(np.ones(6))
    value, big = np.float64(0.5), np.float64(1e308)
    kept = [x, y, x._values, y._values, value, np.dtype(float), Array, x._device, None]

    def work() -> None:
        for _ in range(100):
            x + y, x * value, value * x, 2 * x, x @ y, wf.dot(x, y), -x, x < y, wf.sqrt(x), np.sqrt(x), x[:4] @ y[2:]
            z = x * 1.0
            z += y
            z *= 2.0
            with np.errstate(all="ignore"):
                x * big * big, y / 0.0
                z *= big
                z /= 0.0

    def referred() -> np.ndarray:
        work()
        gc.collect()
        return np.array([*map(sys.getrefcount, kept), len(gc.get_objects())])

    # (memoization and compilation create objects once; a leak would create objects in each iteration)
    counts = [referred() for _ in range(6)]
    assert np.min(np.abs(np.diff(counts, axis=0)), axis=0).max() < 20


def test_the_loops_are_called() -> None:
    """Test that native inner loops add small arrays and compute dot products without the fallback."""

    def refuse(*given: Any) -> Any:
        raise AssertionError

    behind = native_immediate.make_immediate(Mode.CALL, native_immediate.numpy_implementation(len), refuse)
    x = wf.asarray(np.arange(3.0))
    table = native_immediate.implementation_of(native_immediate.find_op("add")).table
    add = native_loops.put_loops_first(behind, Mode.CALL, table).call
    assert type(behind) is Builtin and python_function("Py_IncRef")
    assert add(x, x).tolist() == [0, 2, 4]
    assert add(x, 1).tolist() == [1, 2, 3]
    # an array with a separate dtype object, as after unpickling, and a part of a large array
    again = wf.asarray(np.arange(3, dtype=pickle.loads(pickle.dumps(np.dtype(float)))))
    large = wf.asarray(np.ones((200, 200)))[0, :3]
    large._values  # noqa: B018
    assert add(again, x).tolist() == [0, 2, 4]
    assert add(x, large).tolist() == [1, 2, 3]
    assert native_loops.put_loops_first(behind, native_loops.DOT).call(x, x) == 5.0
