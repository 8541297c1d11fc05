"""Tests of the types of a kernel's variables."""

from __future__ import annotations

import enum
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from weft import KernelError, cuda, kernel
from weft.dsl.kernel.language.compiler import Compiler


def test_many_variables_are_widened_in_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = range(100)
    lines = ["def kernel(out):", *(f"    v{k} = {k}" for k in numbers), "    for _ in range(2):"]
    lines += [f"        v{k} = v{k} + 0.5" for k in numbers]
    lines += [f"    out[{k}] = v{k}" for k in numbers]
    path = tmp_path / "many.py"
    path.write_text("\n".join(lines))
    spec = spec_from_file_location("many", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    runs = []
    monkeypatch.setattr(Compiler, "begin", lambda c, name, begin=Compiler.begin: [runs.append(name), begin(c, name)])
    out = np.zeros(len(numbers))
    cuda.jit(module.kernel)[1, 1](out)
    np.testing.assert_array_equal(out, np.arange(len(numbers)) + 1.0)
    assert len(runs) == 2


@cuda.jit(device=True)
def peak(data: Any) -> Any:
    at = 0
    best = data[at]
    for k in range(1, len(data)):
        if data[k] > best:
            best = data[k]
            at = k
    if 0 < at < len(data) - 1:
        left, right = data[at - 1], data[at + 1]
        at = at - (right - left) / (2.0 * (right + left - 2.0 * best))
    return at


def test_an_index_becomes_a_float_before_the_return() -> None:
    @cuda.jit
    def find(data: Any, out: Any) -> None:
        out[0] = peak(data)

    for data, wanted in (([1.0, 2.0, 5.0, 3.0, 0.0], 2.1), ([3.0, 2.0, 1.0], 0.0)):
        out = np.zeros(1)
        find[1, 1](np.array(data), out)
        np.testing.assert_allclose(out, wanted, rtol=1e-15)


@pytest.mark.parametrize("decorator", [cuda.jit, kernel], ids=["jit", "kernel"])
def test_each_use_has_the_type_of_the_values_that_reach_it(decorator: Any) -> None:
    @decorator
    def use(out: Any, condition: int) -> None:
        v = 7
        half = v // 2
        for k in range(3):
            if condition > k:
                v = v + 0.25
        out[0] = half
        out[1] = v
        (t := 5)
        out[2] = t / 2
        if condition == 2:
            t = 0.5
        out[3] = (u := t)
        out[4] = u

    for condition, wanted in ((0, [3.0, 7.0, 2.5, 5.0, 5.0]), (2, [3.0, 7.5, 2.5, 0.5, 0.5])):
        out = np.zeros(5)
        use[1, 1](out, condition)
        np.testing.assert_array_equal(out, wanted)
        use.py_func(out, condition)
        np.testing.assert_array_equal(out, wanted)


def test_an_array_and_a_number_do_not_meet() -> None:
    @cuda.jit
    def use(x: Any, out: Any, condition: int) -> None:
        v = x
        out[0] = v[1]
        if condition > 0:
            v = 3
        else:
            v = v[2]
        out[1] = v

    for condition, wanted in ((0, 4.0), (1, 3.0)):
        out = np.zeros(2)
        use[1, 1](np.array([1.0, 2.0, 4.0]), out, condition)
        np.testing.assert_array_equal(out, [2.0, wanted])


@pytest.mark.parametrize("debug", [False, True])
def test_arrays_of_any_length_are_unpacked(debug: bool) -> None:
    @cuda.jit(debug=debug)
    def use(limits: Any, rows: Any, out: Any) -> None:
        low, high = limits
        (a, b), (c, d) = rows
        out[0] = high - low
        out[1] = a + 10 * b + 100 * c + 1000 * d
        low, high = high, low
        out[2] = high - low

    out = np.zeros(3)
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    use[1, 1](np.array([1.0, 3.0]), rows, out)
    np.testing.assert_array_equal(out, [2.0, 4321.0, -2.0])
    if debug:
        with pytest.raises(ValueError, match="3 values cannot be unpacked into 2 names"):
            use[1, 1](np.zeros(3), rows, out)


@pytest.mark.parametrize("decorator", [cuda.jit, kernel], ids=["jit", "kernel"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0.0, -0.0),
        (complex(0.0, 0.0), complex(0.0, -0.0)),
        (complex(0.0, 0.0), complex(-0.0, 0.0)),
        (np.complex64(0.0), np.complex64(-0.0)),
        (np.float16(0.0), np.float16(-0.0)),
        (ml_dtypes.bfloat16(0.0), ml_dtypes.bfloat16(-0.0)),
        (np.datetime64("2020-01-01"), np.datetime64("2020-01-02")),
        (np.datetime64("2020-01-01"), np.datetime64("NaT", "D")),
        (np.timedelta64("NaT", "D"), np.timedelta64("NaT", "D")),
    ],
    ids=repr,
)
def test_constants_of_two_branches(decorator: Any, first: Any, second: Any) -> None:
    @decorator
    def use(out: Any, condition: int) -> None:
        if condition > 0:
            v = first
        else:
            v = second
        out[0] = v
        w = None
        if condition < 5:
            w = first
        if condition < 5:
            out[1] = w

    for condition, wanted in ((0, second), (1, first)):
        out = np.ones(2, np.asarray(first).dtype)
        use[1, 1](out, condition)
        assert out.tobytes() == np.array([wanted, first], out.dtype).tobytes()


def test_dates_of_two_units_do_not_meet() -> None:
    day, hour = np.datetime64("2020-01-01"), np.datetime64("2020-01-01T00")

    @cuda.jit
    def use(out: Any, condition: int) -> None:
        if condition > 0:
            v = day
        else:
            v = hour
        out[0] = v

    with pytest.raises(KernelError, match="a variable keeps one type"):
        use[1, 1](np.zeros(1, "M8[h]"), 1)


def test_results_without_a_common_type_are_named() -> None:
    def choose(x: Any) -> None:
        x[0] = (abs if x[0] else len)(x[0])

    def either(x: Any) -> None:
        x[0] = (x[0] > 1 or "x") == "x"

    for function, named in ((choose, "the conditional expression is"), (either, "the result of `or` is")):
        with pytest.raises(KernelError, match=f"^{named} .*, which have no common type"):
            cuda.jit(function)[1, 1](np.ones(1))


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**64])
@pytest.mark.parametrize("decorator", [cuda.jit, kernel], ids=["jit", "kernel"])
def test_integers_of_more_than_64_bits(decorator: Any, number: int) -> None:
    @decorator
    def add(x: Any, out: Any) -> None:
        out[0] = x[0] + number

    @decorator
    def meet(x: Any, out: Any) -> None:
        v = x[0]
        if v > 0:
            v = number
        out[0] = v

    @decorator
    def store(x: Any, out: Any) -> None:
        out[0] = number

    for use in (add, meet, store):
        with pytest.raises(KernelError, match=f"Python int {number} "):
            use[1, 1](np.ones(1, np.int64), np.zeros(1, np.int64))


class Colour(enum.Enum):
    """An enumeration whose members are not numbers."""

    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("first", "second"),
    [(Colour.RED, Colour.RED), (Colour.RED, Colour.BLUE), (np.datetime64("2020-01-01"), np.datetime64("2020-01-02"))],
    ids=str,
)
def test_recursive_functions_return_constants(first: Any, second: Any) -> None:
    @cuda.jit(device=True)
    def descend(n: Any) -> Any:
        if n == 0:
            return first
        if n == 5:
            return second
        return descend(n - 1)

    @cuda.jit
    def use(out: Any, n: int) -> None:
        out[0] = descend(n) == second

    for n, wanted in ((4, first == second), (6, True)):
        out = np.zeros(1, bool)
        use[1, 1](out, n)
        assert out[0] == wanted


class Access(enum.Flag):
    """An `enum.Flag` class. Unlike the members of an `enum.IntFlag`, its members are not integers."""

    READ = 1
    WRITE = 2


def test_flags() -> None:
    @cuda.jit
    def use(out: Any) -> None:
        out[0] = (Access.READ ^ Access.WRITE) == (Access.READ | Access.WRITE)
        out[1] = ~Access.READ == Access.WRITE
        out[2] = (Access.READ & Access.WRITE) == Access.WRITE

    out = np.full(3, -1.0)
    use[1, 1](out)
    assert out.tolist() == [1, 1, 0]
    for function in (lambda out: Access.READ | 1, lambda out: Access.READ + Access.WRITE):
        with pytest.raises(KernelError, match="unsupported operand"):
            cuda.jit(function)[1, 1](out)
