"""Tests of optional values, swapped arrays, `del` and bytes in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda

TEXT = b"xyz"


def launch(function: Any, *arguments: Any, threads: int = 1, **options: Any) -> tuple[Any, ...]:
    """Run a kernel on copies of arrays, in one block. Return the copies."""
    copies = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
    cuda.jit(function, **options)[1, threads](*copies)
    return copies


def positive(x: Any) -> Any:
    if x > 0:
        return x
    return None


def positive_or_nothing(x: Any) -> Any:
    if x > 0:
        return x


def test_a_variable_of_none_is_given_a_number_in_a_branch() -> None:
    def kernel(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        y = None
        if x[i] > 1:
            y = 2.0
        elif x[i] > 0:
            y = 1
        out[i] = y if y is not None else -1

    _, out = launch(kernel, np.array([0, 1, 2]), np.zeros(3), threads=3)
    np.testing.assert_array_equal(out, [-1, 1, 2])


def test_the_least_of_a_loop_that_begins_with_none() -> None:
    def kernel(x: Any, out: Any) -> None:
        least = where = None
        for i in range(x.size):
            if least is None or x[i] < least:
                least, where = x[i], i
        out[0] = least
        out[1] = where + 1
        if least:
            out[2] = 1

    _, out = launch(kernel, np.array([3.0, 1.0, 2.0]), np.zeros(3))
    np.testing.assert_array_equal(out, [1, 2, 1])


@pytest.mark.parametrize("function", [positive, positive_or_nothing])
def test_a_function_that_returns_a_number_or_none(function: Any) -> None:
    def kernel(x: Any) -> None:
        i = cuda.grid(1)
        found = function(x[i])
        if found == None:  # noqa: E711 - as written by users
            x[i] = 100
        else:
            x[i] = found * 2

    (x,) = launch(kernel, np.array([1.5, -1.0]), threads=2)
    np.testing.assert_array_equal(x, [3, 100])


def test_optional_values_are_passed_returned_and_unpacked() -> None:
    def twice(x: Any) -> Any:
        return None if x is None else (x, 2 * x)

    def kernel(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        pair = twice(positive(x[i]))
        if pair is not None:
            one, two = pair
            out[i] = one + two + pair[1]

    _, out = launch(kernel, np.array([1.0, -1.0]), np.zeros(2), threads=2)
    np.testing.assert_array_equal(out, [5, 0])


def test_optional_arrays() -> None:
    def kernel(x: Any, y: Any, out: Any) -> None:
        found = None
        if x[0] > 0:
            found = x
        elif y[0] > 0:
            found = y
        out[0] = found[1] if found is not None else -1

    for x, y, wanted in ((1, 1, 10), (0, 1, 20), (0, 0, -1)):
        *_, out = launch(kernel, np.array([x, 10]), np.array([y, 20]), np.zeros(1))
        assert out[0] == wanted


def test_checked_kernels_report_none() -> None:
    def kernel(x: Any) -> None:
        found = positive(x[0])
        x[0] = found + 1

    assert launch(kernel, np.array([1.0]))[0][0] == 2
    with pytest.raises(TypeError, match=r"found is None, where a value is needed"):
        launch(kernel, np.array([-1.0]), debug=True)


def test_local_arrays_are_swapped() -> None:
    def kernel(out: Any, turns: Any) -> None:
        a, b, c = np.zeros(2), np.ones(2), cuda.local.array(2, np.int32)
        c[0] = 7
        for _ in range(turns):
            a, b = b, a
            a[0] += 10
        out[0], out[1], out[2] = a[0], b[0], c[0]

    for turns in range(4):
        a, b = np.zeros(2), np.ones(2)
        for _ in range(turns):
            a, b = b, a
            a[0] += 10
        assert launch(kernel, np.zeros(3), turns)[0].tolist() == [a[0], b[0], 7]


def test_local_arrays_are_swapped_across_barriers() -> None:
    def kernel(out: Any) -> None:
        old, new = cuda.local.array(3, np.float32), cuda.local.array(3, np.float32)
        shared = cuda.shared.array(4, np.float32)
        t = cuda.threadIdx.x
        for k in range(3):
            old[k] = t + k
        for _ in range(3):
            shared[t] = old[0]
            cuda.syncthreads()
            for k in range(3):
                new[k] = old[k] + shared[(t + 1) % 4]
            cuda.syncthreads()
            old, new = new, old
        for k in range(3):
            out[t, k] = old[k]

    wanted = np.arange(4)[:, None] + np.arange(3.0)
    for _ in range(3):
        wanted = wanted + np.roll(wanted[:, :1], -1, axis=0)
    for device in ("cpu", "simt"):
        with wf.device(device):
            (out,) = launch(kernel, np.zeros((4, 3)), threads=4)
        np.testing.assert_array_equal(out, wanted)


def test_swapped_local_arrays_compile_for_gpus() -> None:
    def kernel(out: Any) -> None:
        a, b = np.zeros(2), np.ones(2)
        for _ in range(out.size):
            a, b = b, a
        out[0] = a[0]

    ptx, _ = cuda.compile_ptx(kernel, (cuda.float64[:],), cc=(8, 0))
    assert ".local" in ptx


def test_del_and_bytes() -> None:
    def kernel(out: Any, i: Any) -> None:
        x = 3
        out[0] = x
        del x
        x = 0.5
        text = b"abc"
        out[1], out[2], out[3] = x, text[i], len(text)
        for k, letter in enumerate(TEXT):
            out[4 + k] = letter

    out, _ = launch(kernel, np.zeros(7), 1)
    assert out.tolist() == [3, 0.5, ord("b"), 3, *TEXT]
