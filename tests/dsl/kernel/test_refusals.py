"""Tests of invalid and unsupported programs.

Each program raises a documented error, which names the problem and shows the invalid line, if any.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.dsl.kernel.refusals import REFUSALS, Refusal
from weft import cuda

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")


def test_there_are_enough_of_them() -> None:
    assert len(REFUSALS) >= 70
    assert len({refusal.name for refusal in REFUSALS}) == len(REFUSALS)


def test_the_errors_are_pythons_too() -> None:
    assert issubclass(weft.KernelSyntaxError, SyntaxError)
    assert issubclass(weft.KernelTypeError, TypeError)
    assert issubclass(weft.LaunchError, ValueError)
    assert all(issubclass(e, weft.WeftError) for e in (weft.KernelSyntaxError, weft.KernelTypeError, weft.LaunchError))


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_refused(refusal: Refusal) -> None:
    allowed = tuple(getattr(weft, name) for name in refusal.errors)
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in refusal.arguments]
    with pytest.raises(allowed) as caught:
        weft.kernel(**refusal.options)(refusal.function)[refusal.launch](*refusal.arguments, **refusal.keywords)
    message = str(caught.value)
    assert re.search(refusal.pattern, message, re.IGNORECASE), message
    if refusal.line is not None:
        assert refusal.function.__code__.co_filename in message, message
        assert f"line {refusal.line}" in message, message
        assert any(set(line.strip()) == {"^"} for line in message.splitlines()), message
    # the kernel has not run
    for old, now in zip(before, refusal.arguments, strict=True):
        if isinstance(old, np.ndarray):
            np.testing.assert_array_equal(now, old)


def _write(x: Any, where: int) -> None:
    x[where + cuda.threadIdx.x] = 1


def _read_matrix(x: Any, row: int) -> None:
    x[0, 0] = x[row, 1]


def _assert(x: Any, limit: int) -> None:
    assert cuda.threadIdx.x < limit, "too far"
    x[cuda.threadIdx.x] = 1


def _raise(x: Any, limit: int) -> None:
    if cuda.threadIdx.x == limit:
        raise ValueError("no such thread}", cuda.threadIdx.x == limit)
    x[cuda.threadIdx.x] = 1


def _local(x: Any, where: int) -> None:
    own = cuda.local.array(4, np.int64)
    own[where] = 1
    x[0] = own[where]


def _assign_slice(x: Any, stop: int) -> None:
    x[0:stop] = x[0:2]


CHECKED: list[tuple[Callable[..., Any], Any, int, type[Exception], str]] = [
    (_write, np.zeros(8), 5, IndexError, r"8.*(size|shape|8)"),
    (_write, np.zeros(8), -20, IndexError, r"-20"),
    (_read_matrix, np.zeros((2, 3)), 2, IndexError, r"2"),
    (_assert, np.zeros(8), 2, AssertionError, r"too far"),
    (_raise, np.zeros(8), 1, ValueError, r"no such thread}, True in block"),
    (_local, np.zeros(8), 4, IndexError, r"4"),
    (_assign_slice, np.zeros(8), 3, ValueError, r"2.*3"),
]


@pytest.mark.parametrize(
    ("function", "array", "number", "error", "pattern"), CHECKED, ids=[f"{c[0].__name__}{c[2]}" for c in CHECKED]
)
def test_checked_mode(
    function: Callable[..., Any], array: Any, number: int, error: type[Exception], pattern: str
) -> None:
    """Test that errors with ``debug=True`` name the block and the thread.

    The errors are invalid indices, slices of unequal lengths, failed assertions, and raised exceptions.
    """
    with pytest.raises(error) as caught:
        weft.kernel(debug=True)(function)[2, 4](array, number)
        cuda.synchronize()
    message = str(caught.value)
    assert re.search(pattern, message), message
    assert re.search(r"block.*\d.*thread.*\d", message), message
    assert function.__code__.co_filename in message and "line" in message, message


def test_launch_without_brackets() -> None:
    @weft.kernel
    def kernel(x: Any) -> None:
        x[0] = 1

    with pytest.raises((weft.KernelTypeError, weft.LaunchError, TypeError, ValueError), match=r"\[") as caught:
        kernel(np.zeros(2))
    assert isinstance(caught.value, weft.WeftError)


def test_no_launch_configuration() -> None:
    @weft.kernel
    def kernel(x: Any) -> None:
        x[0] = 1

    for wrong in ((), (1,), (1, 2, 3, 4, 5)):
        with pytest.raises((weft.LaunchError, weft.KernelTypeError)):
            kernel[wrong](np.zeros(2))


def test_intrinsics_outside_of_kernels() -> None:
    for name in ("grid", "syncthreads", "laneid"):
        with pytest.raises(TypeError, match="inside a kernel"):
            thing = getattr(cuda, name)
            thing(1) if name == "grid" else thing() if callable(thing) else int(thing)


def test_equal_functions_of_two_files(tmp_path: Path) -> None:
    for name in ("first.py", "second.py"):
        text = "def kernel(x):\n    x[0] = missing\n"
        (tmp_path / name).write_text(text)
        made: dict[str, Any] = {}
        exec(compile(text, str(tmp_path / name), "exec"), made)
        with pytest.raises(weft.KernelNameError, match=name):
            weft.kernel(made["kernel"])[1, 1](np.zeros(2))


@weft.kernel
def call(x: Any, function: Any) -> None:
    function(x)


@pytest.mark.parametrize("text", ["def (\n", "x = 1\ndef (\n", "x = 'a\n"])
@pytest.mark.parametrize("program", ["count = lambda x: add(x, 0, 1)", "def count(x): add(x, 0, 1)"])
def test_functions_of_files_that_have_changed(program: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "changed.py"
    path.write_text(text)
    made: dict[str, Any] = {}
    exec(compile(program, str(path), "exec"), {"add": cuda.atomic.add}, made)
    x = np.zeros(1)
    call[1, 2](x, made["count"])
    assert x[0] == 2


def test_function_without_source() -> None:
    made: dict[str, Any] = {}
    exec("def kernel(x):\n    with x:\n        x[0] = 1\n", made)
    with pytest.raises(weft.KernelSyntaxError, match="kernel has no source text, and `with` is not read"):
        weft.kernel(made["kernel"])[1, 1](np.zeros(2))


def test_signature_that_does_not_parse() -> None:
    for text in ("void(float32[:)", "float33[:]", "void(float32[:], )(", ""):
        with pytest.raises(TypeError):
            cuda.jit(text)(lambda x: None)


def test_signature_with_another_count() -> None:
    with pytest.raises(weft.KernelTypeError):

        @cuda.jit("void(float64[:], float64[:])")
        def kernel(x: Any) -> None:
            x[0] = 1


def test_kernel_that_says_it_returns() -> None:
    with pytest.raises((weft.KernelTypeError, TypeError), match="void|return"):

        @cuda.jit("float64(float64[:])")
        def kernel(x: Any) -> None:
            x[0] = 1


def test_not_a_function() -> None:
    for wrong in (3, "text", len, np.sin, type("T", (), {})):
        with pytest.raises(TypeError):
            weft.kernel(wrong)


def test_unknown_option() -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        cuda.jit(no_such_option=True)(lambda x: None)


def test_unknown_architecture() -> None:
    def kernel(x: Any) -> None:
        x[0] = 1

    with pytest.raises((ValueError, weft.WeftError), match="3.*0|sm_30"):
        cuda.compile_ptx(kernel, "void(float64[:])", cc=(3, 0))
