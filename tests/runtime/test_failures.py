"""Tests of failures of the optimizer.

They are reported once per form (graph structure), and raised under WEFT_STRICT=1.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays import masks
from weft.fusion.run import reduce_arrays, stored_loops
from weft.fusion.run.expanded_ops import ExpandedOp
from weft.runtime import CompileError, failures, override, try_compiling
from weft.runtime.cpu import host_launches, interrupts
from weft.runtime.cpu.free_lists import make_free_lists
from weft.runtime.cpu.host_memory import HostBuffer
from weft.runtime.cpu.random.readiness import Readiness


def fail(*_: Any, **__: Any) -> Any:
    raise CompileError("no compiler")


@pytest.fixture(autouse=True)
def nothing_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr(failures, "_reported", set())
    with override(cache_dir=str(tmp_path)):
        yield


def expand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the compilation of an op's loop fail, and check that simpler NumPy functions compute the op."""
    kind = np.dtype(np.float64)
    row = ExpandedOp("square", (kind,), kind, lambda op, loop, dtype: np.square, fail)
    monkeypatch.setattr(row, "_spent", 1e9)
    assert row(np.arange(3.0)).tolist() == [0, 1, 4]


def reduce_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the compilation of a loop for row sums fail, and check that `_reduce_compiled` returns None."""
    monkeypatch.setattr(stored_loops, "obtain_reduction", fail)
    kind = np.dtype(np.float64)
    monkeypatch.setattr(reduce_arrays, "_loops", {})
    monkeypatch.setattr(reduce_arrays, "_counts", {("add", kind.char): reduce_arrays.OFTEN})
    assert reduce_arrays._reduce_compiled("add", np.ones((4, 100)), (1,), kind) is None


def select(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a mask selects the right elements although the compilation of its kernel fails."""
    monkeypatch.setattr(masks.fusion, "compile_masked_copy", fail)
    monkeypatch.setattr(masks, "compile_price", lambda: -1.0)
    monkeypatch.setattr(masks.fusion, "find_masked_copy", lambda kind: None)
    copier, out = masks.MaskCopier.__wrapped__(8), np.empty(2)
    copier(np.arange(4.0), np.array([True, False, True, False]), out, 1)
    assert out.tolist() == [0, 2]


def start_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_launches.launch_code, "native_runner", fail)
    assert host_launches.runner.__wrapped__() is None


def list_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.runtime.cpu.free_lists.check_objects", fail)
    assert make_free_lists(HostBuffer, wf.default_device().memory, {}) is None


def guard_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "link_native", fail)
    assert interrupts.guard.__wrapped__() is None


def draw(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Readiness(fail, lambda code: True).find(1) is None


FALLBACKS = (expand, reduce_rows, select, start_kernels, list_buffers, guard_kernels, draw)


@pytest.mark.cpu
@pytest.mark.parametrize("fall_back", FALLBACKS)
def test_a_fallback_issues_one_warning_that_names_a_report(
    fall_back: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with override(strict=False), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fall_back(monkeypatch)
    (warning,) = caught
    assert warning.category is wf.OptimizerWarning
    path = re.search(r"no compiler\), so .*; the report is in (\S+)\. WEFT_STRICT=1", str(warning.message))
    assert path is not None and "CompileError: no compiler" in Path(path[1]).read_text()


@pytest.mark.cpu
@pytest.mark.parametrize("fall_back", FALLBACKS)
def test_no_fallback_is_used_if_failures_are_errors(
    fall_back: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with override(strict=True), pytest.raises(CompileError, match="no compiler"):
        fall_back(monkeypatch)


def test_a_form_is_reported_once() -> None:
    with override(strict=False), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for form in ("one", "two", "one"):
            assert try_compiling(form, "nothing happens", fail) is None
        assert try_compiling("three", "nothing happens", lambda: 3) == 3
    assert [str(warning.message).split()[0] for warning in caught] == ["one", "two"]
    with override(strict=True), pytest.raises(CompileError):
        try_compiling("one", "nothing happens", fail)


def test_a_lack_of_memory_is_no_failure_of_the_optimizer() -> None:
    def exhaust() -> None:
        raise MemoryError

    with override(strict=False), pytest.raises(MemoryError):
        try_compiling("one", "nothing happens", exhaust)


def test_without_a_cache_folder_there_is_no_report() -> None:
    with override(strict=False, cache=False), pytest.warns(wf.OptimizerWarning, match="no file: the cache folder"):
        try_compiling("one", "nothing happens", fail)
