"""Tests of recursive functions in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import KernelTypeError, cuda, kernel

LINE = wf.asarray(np.arange(4.0))
EVERY_SECOND = wf.asarray(np.arange(8.0))[::2]


@wf.device
def total(n: Any) -> Any:
    return LINE[0] if n == 0 else other_total(n - 1) + LINE[n]


@wf.device
def other_total(n: Any) -> Any:
    return LINE[0] if n == 0 else total(n - 1) + 10 * EVERY_SECOND[n]


def test_global_arrays() -> None:
    @kernel
    def use(x: Any) -> None:
        x[cuda.threadIdx.x] = total(int(x[cuda.threadIdx.x]))

    x = np.array([0.0, 1.0, 2.0, 3.0])
    use[1, 4](x)
    np.testing.assert_array_equal(x, [0, 1, 22, 44])


def test_variables_of_the_function_around_it() -> None:
    @kernel
    def use(x: Any, step: Any) -> None:
        limit = x[0]

        def climb(a: Any) -> Any:
            return a if a > limit else climb(a + x[2] * step)

        x[1] = climb(x[1])
        limit = 5.0
        x[2] = climb(x[1])

    x = np.array([3.0, 0.0, 2.0])
    use[1, 1](x, 1)
    np.testing.assert_array_equal(x, [3, 4, 6])


def test_they_assign_no_variables_of_the_function_around_them() -> None:
    @kernel
    def use(x: Any) -> None:
        n = 0

        def climb(a: Any) -> Any:
            nonlocal n
            n += 1
            return a if a > 5 else climb(a + 1)

        x[0] = climb(x[0]) + n

    with pytest.raises(KernelTypeError, match="cannot assign 'n'"):
        use[1, 1](np.zeros(1))


@wf.device
def ratios(x: Any, n: Any) -> Any:
    assert n < 100, f"{n} is too much"
    if n <= 0:
        return 0
    return 12 // x[n] + ratios(x, n - 1)


@pytest.mark.parametrize(
    ("n", "options", "error", "message"),
    [
        (2, {}, None, ""),
        (2, {"debug": True}, None, ""),
        (200, {}, AssertionError, r"200 is too much in block \(0, 0, 0\), thread \(1, 0, 0\)"),
        (3, {"debug": True}, ZeroDivisionError, "division by zero in block"),
        (4, {"debug": True}, IndexError, "index 4 is out of bounds for axis 0 of x with size 4"),
    ],
)
def test_a_failure_ends_the_thread(n: int, options: dict[str, Any], error: Any, message: str) -> None:
    @kernel(**options)
    def use(x: Any, out: Any) -> None:
        i = cuda.threadIdx.x
        out[i] = ratios(x, out[i])
        out[i] += 1000

    x, out = np.array([1, 2, 3, 0]), np.array([1, n])
    if error is None:
        use[1, 2](x, out)
        np.testing.assert_array_equal(out, [1006, 1010])
        return
    with pytest.raises(error, match=message):
        use[1, 2](x, out)
    np.testing.assert_array_equal(out, [1006, n])


@wf.device
def descend(x: Any, n: Any) -> None:
    if n == 2:
        raise ValueError("two")
    x[n] += 1
    if n > 0:
        descend(x, n - 1)
    x[n] += 10


@pytest.mark.parametrize(("n", "wanted"), [(1, [111, 11, 0, 0]), (3, [0, 0, 0, 1])])
def test_functions_without_a_result(n: int, wanted: list[int]) -> None:
    @kernel
    def use(x: Any, n: Any) -> None:
        descend(x, n)
        x[0] += 100

    x = np.zeros(4)
    if n == 3:
        with pytest.raises(ValueError, match="two"):
            use[1, 1](x, n)
    else:
        use[1, 1](x, n)
    np.testing.assert_array_equal(x, wanted)


def test_the_end_of_a_function_is_none() -> None:
    @wf.device
    def find(x: Any, n: Any) -> Any:
        if x[n] == 0:
            return n
        if n > 0:
            return find(x, n - 1)

    @kernel
    def use(x: Any, out: Any) -> None:
        found = find(x, x.size - 1)
        out[0] = -1 if found is None else found

    for x, wanted in (([1, 0, 2, 3], 1), ([1, 2], -1)):
        out = np.zeros(1)
        use[1, 1](np.array(x), out)
        assert out[0] == wanted


@kernel
def increment(x: Any) -> None:
    x[cuda.grid(1)] += 1


def test_launches_and_dynamic_shared_memory() -> None:
    @wf.device
    def repeat(x: Any, n: Any) -> Any:
        if n == 0:
            return 0
        increment[1, 2](x)
        return repeat(x, n - 1) + cuda.shared.array(0, np.float64).size

    @kernel
    def use(x: Any, out: Any) -> None:
        out[0] = repeat(x, 3)

    x, out = np.zeros(2), np.zeros(1)
    use[1, 1, 0, 64](x, out)
    assert x.tolist() == [3, 3] and out[0] == 24


def test_ptx() -> None:
    def use(x: Any) -> None:
        x[0] = ratios(x, x[0])

    ptx, _ = cuda.compile_ptx(use, "void(int64[:])", cc=(8, 0))
    assert "call" in ptx
