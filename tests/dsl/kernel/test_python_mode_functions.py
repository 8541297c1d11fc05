"""Tests of library functions and types in kernels that run as plain Python."""

from __future__ import annotations

import math
from math import sqrt
from typing import Any

import numpy as np
import pytest

import weft
from tests.dsl.kernel.python_mode import f32, run
from weft.dsl.kernel.language import names as cuda
from weft.dsl.kernel.language.device_function import device
from weft.dsl.kernel.language.types import int32
from weft.dsl.kernel.python_mode.simulate_functions import with_kernel_names

INF = math.inf


@pytest.mark.parametrize("dtype", [np.float16, f32, np.float64])
def test_dtypes_are_kept(dtype: Any) -> None:
    seen: list[Any] = []

    def kernel(x: np.ndarray) -> None:
        seen.extend([math.exp(x[0]), sqrt(x[0]), math.atan2(x[0], 1.0), math.pow(x[0], 2), math.log(x[0], 2)])

    run(kernel, 1, 1, np.array([2], dtype))
    assert [type(value) for value in seen] == [dtype] * 5
    assert seen[1] == dtype(math.sqrt(2))
    assert seen[4] == 1


def test_results_of_integers_and_of_pythons_own_numbers() -> None:
    seen: list[Any] = []

    def kernel(x: np.ndarray) -> None:
        seen.extend([math.sqrt(x[0]), math.sqrt(4), math.sin(0.5), math.floor(2.5), math.pi])

    run(kernel, 1, 1, np.array([9], np.int32))
    assert seen == [3, 2, math.sin(0.5), 2, math.pi]
    assert [type(value) for value in seen] == [np.float64, float, float, int, float]


def test_nothing_raises() -> None:
    def kernel(x: np.ndarray) -> None:
        x[0] = math.sqrt(-1.0)
        x[1] = math.log(0.0)
        x[2] = math.exp(1e4)
        x[3] = math.acos(x[9])
        x[4] = math.fmod(1.0, 0.0)
        x[5] = math.gamma(x[9] * 100)
        x[6] = math.pow(0.0, -1.0)
        x[7] = math.lgamma(0.0)
        x[8] = math.log(x[9], 1.0)

    x = np.full(10, 2.0, f32)
    run(kernel, 1, 1, x)
    np.testing.assert_array_equal(x[:9], [np.nan, -INF, INF, np.nan, np.nan, INF, INF, INF, INF])


def test_number_types_convert_as_kernels_do() -> None:
    seen: list[Any] = []

    def kernel(x: np.ndarray) -> None:
        seen.extend(
            [np.uint8(-1), np.uint8(x[0]), np.int32(x[1]), int32(x[1]), int(x[1]), int(2.9), np.uint32(2**40 + 3)]
        )
        seen.extend([isinstance(x[0], np.float32), isinstance(x[0], f32), x[0].dtype == np.float32, isinstance(3, int)])
        seen.extend([x[0].view(np.uint32) == 0xC0200000, np.iinfo(np.int8).max])
        held = cuda.local.array(2, np.int16)
        held[0] = 70000
        seen.append(held[0])
        same = np.where(x[0] < 0, x[0], 0)
        other = same
        other += 1
        seen.extend([same, weft.absolute(x[0]), np.float32(1) + np.float64(1)])

    run(kernel, 1, 1, np.array([-2.5, math.nan], f32))
    assert seen == [255, 0, 0, 0, 0, 2, 3, True, True, True, True, True, 127, 4464, -2.5, 2.5, 2]
    assert [type(value) for value in seen[:7]] == [np.uint8, np.uint8, np.int32, np.int32, int, int, np.uint32]
    assert [type(value) for value in seen[-3:]] == [f32, f32, np.float64]


def root(x: Any) -> Any:
    return math.sqrt(x)


@device
def device_root(x: Any) -> Any:
    return root(x)


def power(x: Any, n: int) -> Any:
    return math.sqrt(x) ** 2 * power(x, n - 1) if n > 0 else f32(1)


def test_functions_that_a_kernel_calls_know_it_too() -> None:
    inner_default = f32(-2)
    seen: list[Any] = []

    def inside(x: Any, *, scale: float = 2.0) -> Any:
        return math.sqrt(x) * scale

    def recursive(x: Any, n: int) -> Any:
        return x if n == 0 else recursive(math.fabs(x), n - 1)

    def kernel(x: np.ndarray) -> None:
        seen.extend([root(x[0]), device_root(x[0]), inside(x[0]), (lambda y: math.sqrt(y))(x[0])])
        seen.extend([power(x[0], 2), recursive(inner_default, 2)])

    run(kernel, 1, 1, np.array([4], f32))
    assert seen == [2, 2, 4, 2, 16, 2]
    assert {type(value) for value in seen} == {f32}


def test_the_code_stays_the_users_own() -> None:
    def plain(x: Any) -> Any:
        return x

    assert with_kernel_names(plain) is plain
    assert with_kernel_names(root) is not root
    assert with_kernel_names(root).__code__ is root.__code__
    assert root.__globals__["math"] is math
