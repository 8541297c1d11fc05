"""Tests of Numba's types in kernels of `weft.cuda`, and of NumPy's types in kernels of `weft.kernel`."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.kernel.language.numba_table import (
    BINARY,
    DTYPES,
    LITERALS,
    PATH,
    UNARY,
    VALUES,
    cases,
    function_text,
    pairs,
)
from weft import cuda
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.kernel_errors import KernelError
from weft.dsl.kernel.language.values import Constant, ScalarValue, join, kind_of
from weft.runtime import override

TABLE: dict[str, Any] = json.loads(PATH.read_text())
INDEX = np.dtype(np.int64)
ROWS = dict(
    zip(
        "+ - * / // % ** << >> & | ^ < <= > >= == != min max atan2".split(),
        "add subtract multiply divide floor_divide remainder power left_shift right_shift bitwise_and bitwise_or bitwise_xor "
        "less less_equal greater greater_equal equal not_equal minimum maximum arctan2".split(),
        strict=True,
    )
)
COMPLEX = ("complex64", "complex128", "1j")
# Operations with another type in weft than in Numba, and the reason.
OURS: dict[tuple[str, str, str], str] = {
    ("**", "bool", "int32"): "int64",  # float32 in Numba, because of the order of its overloads
}


def _wanted(op: str, left: str, right: str, numbas: str) -> str | None:
    """Return the dtype that a result must have, or None if any is accepted.

    The dtype "-" stands for an error. Operations on complex numbers that Numba rejects may have any result.
    """
    if numbas == "-" and (left in COMPLEX or right in COMPLEX):
        return None
    return OURS.get((op, left, right), numbas)


class _Numbers:
    """Operations on the values of a kernel, with Numba's types for scalars."""

    def __init__(self) -> None:
        self.compiler = Compiler(None, None, False, INDEX)  # type: ignore[arg-type]
        self.compiler.numba_asked = self.compiler.numba = True
        self.compiler.begin("k")

    def of(self, name: str) -> Constant | ScalarValue:
        if name not in DTYPES:
            return Constant({"2": 2, "0.5": 0.5, "True": True, "1j": 1j}[name])
        count = len(self.compiler.builder.kernel.parameters)
        return ScalarValue(self.compiler.builder.scalar(f"s{count}", np.dtype(name)))

    def result(self, row: str, *operands: Any) -> str:
        try:
            found = self.compiler.scalar(self.compiler.apply(row, *operands))
        except KernelError:
            return "-"
        return found.dtype.name


@pytest.mark.parametrize("op", BINARY)
def test_results_have_numbas_types(op: str) -> None:
    wrong = []
    for left, line in zip(DTYPES, TABLE[op], strict=True):
        for right, numbas in zip((*DTYPES, *LITERALS), line.split(), strict=True):
            numbers = _Numbers()
            x, y = numbers.of(left), numbers.of(right)
            if op == "join":
                found: Any = join(kind_of(x), kind_of(y), True)
                found = found.dtype.name
            else:
                found = numbers.result(ROWS[op], x, y)
            if (wanted := _wanted(op, left, right, numbas)) is not None and found != wanted:
                wrong.append(f"{left} {op} {right}: {found}, not {wanted}")
    assert not wrong, "\n".join(wrong)


def test_every_unary_operation_is_in_the_table() -> None:
    assert set(TABLE) == {*BINARY, *UNARY}


OF_ONE: dict[str, Any] = {
    "-x": lambda n, x: n.result("negative", x),
    "+x": lambda n, x: n.result("positive", x),
    "~x": lambda n, x: n.result("invert", x),
    "math.sqrt(x)": lambda n, x: n.result("sqrt", x),
    "math.exp(x)": lambda n, x: n.result("exp", x),
    "x**2": lambda n, x: n.result("power", x, Constant(2)),
    "x**3": lambda n, x: n.result("power", x, Constant(3)),
    "x**0.5": lambda n, x: n.result("power", x, Constant(0.5)),
    "2 + x": lambda n, x: n.result("add", Constant(2), x),
    "0.5 * x": lambda n, x: n.result("multiply", Constant(0.5), x),
    "1 / x": lambda n, x: n.result("divide", Constant(1), x),
}


@pytest.mark.parametrize("text", OF_ONE)
def test_results_of_one_number_have_numbas_types(text: str) -> None:
    for name, numbas in zip(DTYPES, TABLE[text].split(), strict=True):
        numbers = _Numbers()
        if (wanted := _wanted(text, name, "", numbas)) is not None:
            assert OF_ONE[text](numbers, numbers.of(name)) == wanted, (text, name)


# -- whole kernels ----------------------------------------------------------------------------------


@cuda.jit
def grey(red: Any, green: Any, blue: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] = (red[i] + green[i] + blue[i]) / 3


@cuda.jit
def total(x: Any, out: Any) -> None:
    t = 0.0
    for i in range(x.size):
        t += x[i]
    out[0] = t


@cuda.jit(device=True)
def product(x: Any, y: Any) -> Any:
    return x * y


@cuda.jit
def products(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = product(x[i], y[i])


def test_integers_do_not_wrap_below_64_bits() -> None:
    a = np.full(5, 200, np.uint8)
    out = np.zeros(5, np.float32)
    grey[1, 8](a, a, a, out)
    np.testing.assert_array_equal(out, np.full(5, 200, np.float32))
    large, wide = np.full(4, 2**31 - 1, np.int32), np.zeros(4, np.int64)
    products[1, 4](large, large, wide)
    np.testing.assert_array_equal(wide, (2**31 - 1) ** 2)


def test_sums_of_float32_are_float64() -> None:
    x = np.full(1 << 16, 0.1, np.float32)
    out = np.zeros(1)
    total[1, 1](x, out)
    assert math.isclose(out[0], x.astype(np.float64).sum(), rel_tol=1e-12)


def test_stored_constants_wrap() -> None:
    @cuda.jit
    def store(x: Any, y: Any) -> None:
        x[0] = -1
        y[0] = 300

    x, y = np.zeros(1, np.uint32), np.zeros(1, np.int8)
    store[1, 1](x, y)
    assert (x[0], y[0]) == (2**32 - 1, 44)
    with pytest.raises(wf.KernelTypeError, match="-1 is out of bounds for uint32"):
        wf.kernel(store.py_func)[1, 1](x, y)


def test_vectorized_functions_of_numpys_arrays_return_numpys() -> None:
    function = cuda.vectorize(lambda x: x + 1)
    x = np.arange(3.0)
    assert type(function(x)) is np.ndarray
    assert type(function(wf.asarray(x))) is wf.Array
    assert type(wf.vectorize(lambda x: x + 1)(x)) is wf.Array


def test_numpys_types_on_request() -> None:
    a = np.full(5, 200, np.uint8)
    for kernel in (cuda.jit(grey.py_func, weak_scalars=True), wf.kernel(grey.py_func)):
        out = np.zeros(5, np.float32)
        kernel[1, 8](a, a, a, out)
        np.testing.assert_allclose(out, (600 - 512) / 3, rtol=1e-6)
    with override(weak_scalars=True):
        kernel = cuda.jit(grey.py_func)
    out = np.zeros(5, np.float32)
    kernel[1, 8](a, a, a, out)
    np.testing.assert_allclose(out, (600 - 512) / 3, rtol=1e-6)


def test_numbas_types_on_request() -> None:
    a = np.full(5, 200, np.uint8)
    for weak_scalars in (False, 0):
        out = np.zeros(5, np.float32)
        wf.kernel(grey.py_func, weak_scalars=weak_scalars)[1, 8](a, a, a, out)
        np.testing.assert_allclose(out, 200, rtol=1e-6)


def test_vectorized_functions_have_numbas_types() -> None:
    def middle(x: Any, y: Any) -> Any:
        return (x + y) / 2

    x = np.full(3, 200, np.uint8)
    np.testing.assert_array_equal(np.asarray(cuda.vectorize(middle)(x, x)), np.full(3, 200.0))
    assert np.asarray(wf.vectorize(middle)(x, x))[0] == 72.0


def test_a_hint_names_the_line_of_the_first_float64() -> None:
    @cuda.jit
    def scaled(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        y = x[i] + x[i]
        out[i] = y * 0.5  # here

    x = wf.asarray(np.ones(4, np.float32))
    with wf.device("simt"):
        a, b = wf.asarray(np.ones(4, np.float32)), wf.zeros(4, np.float32)
        with pytest.warns(wf.PerformanceWarning, match=r"(?s)scaled computes in float64.*y \* 0.5  # here"):
            scaled[1, 4](a, b)
        np.testing.assert_array_equal(np.asarray(b), 1)
        scaled[1, 4](a[1:], b[1:])  # (the warning is issued once)
        wide = wf.zeros(4)
        cuda.jit(scaled.py_func)[1, 4](a, wide)
        cuda.jit(scaled.py_func, weak_scalars=True)[1, 4](a, b)
    scaled[1, 4](x, wf.zeros(4, np.float32))


# -- values -----------------------------------------------------------------------------------------

# Where values differ from Numba's on purpose: int64 and uint64 are compared exactly, and not as float64.
EXACT_COMPARISONS = {
    (op, *sides) for op in ("<", "<=", ">", ">=", "==", "!=") for sides in (("int64", "uint64"), ("uint64", "int64"))
}


def agree(op: str, base: np.ndarray, found: np.ndarray, numbas: np.ndarray) -> bool:
    """Return whether results are equal. Results of powers, `atan2` and complex numbers may differ by rounding."""
    if op not in ("**", "atan2") and numbas.dtype.kind != "c":
        return np.array_equal(found, numbas)
    defined = (base != 0) | (op != "**") | (numbas.dtype.kind != "c")  # (complex powers of 0 are undefined)
    if op == "**" and numbas.dtype.kind == "c":  # the logarithm's error grows with the exponent
        return np.allclose(found[defined], numbas[defined], rtol=64 * np.finfo(numbas.dtype).eps, atol=0)
    return np.allclose(found, numbas, rtol=8 * np.finfo(np.result_type(numbas, np.float32)).eps, atol=0, equal_nan=True)


def numbas_values() -> dict[tuple[str, str, str], np.ndarray]:
    """Return Numba's results by operator and operands."""
    found: dict[tuple[str, str, str], np.ndarray] = {}
    with np.load(VALUES) as stored:
        raw = {op: stored[str(k)] for k, op in enumerate(op for op in BINARY if op != "join")}
    at = dict.fromkeys(raw, 0)
    for op, left, right, result in cases(TABLE):
        size = pairs(op, left, right)[0].size * np.dtype(result).itemsize
        found[op, left, right] = raw[op][at[op] : at[op] + size].view(result)
        at[op] += size
    assert all(at[op] == raw[op].size for op in raw)
    return found


# Left operands of each kind. (Every dtype is a right operand of each of them, and the types of all pairs are tested above.)
OFTEN = ("bool", "int32", "uint64", "float32", "complex64")


@pytest.mark.parametrize("left", [pytest.param(t, marks=[pytest.mark.slow] * (t not in OFTEN)) for t in DTYPES])
def test_results_have_numbas_values(left: str) -> None:
    """Compare results of binary operations with Numba's, except where weft differs on purpose."""
    values = {key: value for key, value in numbas_values().items() if key[1] == left}
    found = [c for c in cases(TABLE) if c[1] == left and (c[0], left, c[2]) not in {*OURS, *EXACT_COMPARISONS}]
    wrong = []
    for begin in range(0, len(found), 40):  # (of bounded size, as compile times grow with it)
        part = found[begin : begin + 40]
        operands = [pairs(op, left, right) for op, _, right, _ in part]
        outs = [np.zeros(x.size, result) for (x, _), (*_, result) in zip(operands, part, strict=True)]
        scope: dict[str, Any] = {"math": math, "cuda": cuda}
        exec(function_text(part), scope)
        launch = cuda.jit(scope["f"])[1, 1]
        launch(*(array for (x, y), out in zip(operands, outs, strict=True) for array in (x, y, out)))
        for (op, _, right, _), (x, _), out in zip(part, operands, outs, strict=True):
            numbas = values[op, left, right]
            if not agree(op, x, out, numbas):
                wrong.append(f"{left} {op} {right}: {out[out != numbas][:3]}, not {numbas[out != numbas][:3]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_of_ranges_may_be_floats(dtype: type) -> None:
    """Test that kernels of `weft.cuda` truncate float arguments of `range`.

    Kernels of `weft.kernel` reject float arguments.
    """

    def count(bounds: Any, out: Any) -> None:
        for k in range(bounds[0]):
            out[0] += k
        for k in range(bounds[1], bounds[0], 2.5):
            out[1] += k

    for values in ((7.9, -1.9), (-3.5, 0), (0.9, 0)):
        stop, start = map(int, values)
        out = np.zeros(2)
        cuda.jit(count)[1, 1](np.array(values, dtype), out)
        np.testing.assert_array_equal(out, [sum(range(stop)), sum(range(start, stop, 2))])
    with pytest.raises(KernelError, match="range takes integers, not float"):
        wf.kernel(count)[1, 1](np.zeros(2, dtype), np.zeros(2))


WIDE, TWO, BYTE = np.int32(65536), np.uint32(2), np.uint8(200)


def test_constants_of_numpys_types_have_numbas_types() -> None:
    """Test that constants of NumPy's scalar types have Numba's types in arithmetic. The results are those of Numba's `njit`."""

    @cuda.jit(device=True)
    def next_product(a: Any, b: Any) -> Any:
        return a * b + 1

    @cuda.jit
    def kernel(out: Any) -> None:
        local = cuda.local.array(TWO * 2, np.float64)  # (the result is still a constant)
        out[0] = WIDE * WIDE
        out[1] = WIDE * (WIDE - 1) // 2
        out[2] = 1 - TWO
        for k in range(1 - TWO, TWO + 1):
            out[3] += 1
        out[4] = next_product(np.int32(65536), np.int32(65536))
        x = np.uint8(200)
        x += 100
        out[5] = x
        pair = (np.int8(100), np.int8(100))
        out[6] = pair[0] + pair[1] + local.size
        q = cuda.types.uint32(7)
        q = q * cuda.types.uint32(1664525) + cuda.types.uint32(1013904223)
        out[7] = q * cuda.types.uint32(1664525)
        out[8], out[9], out[10] = -BYTE, ~BYTE, np.int16(300) ** 2

    out = np.zeros(11, np.int64)
    kernel[1, 1](out)
    wanted = [1 << 32, 2147450880, -1, 4, (1 << 32) + 1, 300, 204, 1707063431118450, 56, 55, 90000]
    np.testing.assert_array_equal(out, wanted)


def test_unsigned_integers_are_negated_and_inverted_in_their_own_width() -> None:
    """Test that ``-`` and ``~`` of unsigned integers have the results of Numba's `njit`."""

    @cuda.jit
    def kernel(m: Any, a: Any, out: Any) -> None:
        out[0] = ~m[0]
        out[1] = (~m[1]) == 0
        out[2] = (~m[2]) >> 1
        out[3] = ~a[0]
        out[4] = -a[0]
        out[5] = -m[2] + 1
        out[6] = cuda.popc(~m[0])

    out = np.zeros(7, np.int64)
    kernel[1, 1](np.array([0, 0xFFFFFFFF, 7], np.uint32), np.array([5], np.uint8), out)
    np.testing.assert_array_equal(out, [0xFFFFFFFF, 1, 2147483644, 250, 251, 4294967290, 32])
