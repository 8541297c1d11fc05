"""Tests of the sanitizer on programs with and without deliberate faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft as wf
from tests.dsl.kernel.faults import FAULTS, Fault
from tests.dsl.kernel.probes import Probe, same
from tests.dsl.kernel.programs import PROGRAMS
from weft import cuda
from weft.runtime import override

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")
KINDS = {"out of bounds", "uninitialized", "race", "divergent barrier", "misaligned"}


def launch(fault: Fault) -> None:
    """Run the kernel that contains the given fault."""
    arguments = [
        cuda.device_array(a.shape, a.dtype) if k in fault.blank else a.copy() if isinstance(a, np.ndarray) else a
        for k, a in enumerate(fault.arguments)
    ]
    weft.kernel(fault.function)[fault.launch](*arguments)


def test_there_are_enough_of_them() -> None:
    assert len(FAULTS) >= 20
    assert {fault.kind for fault in FAULTS} == KINDS
    assert all(fault.lines for fault in FAULTS)
    assert len(PROGRAMS) >= 50


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.function.__name__)
def test_planted_fault(fault: Fault) -> None:
    with wf.sanitize(), pytest.raises(weft.SanitizerError) as caught:
        launch(fault)
    reports = caught.value.reports
    assert reports
    report = reports[0]
    assert report.kind == fault.kind
    assert Path(report.file) == Path(fault.function.__code__.co_filename)
    assert report.line in fault.lines
    assert len(report.block) == len(report.thread) == 3
    if fault.array:
        assert report.array == fault.array
    if fault.index is not None:
        assert tuple(report.index) == fault.index
    if fault.kind == "race":
        other = report.other
        assert other.line in fault.lines
        assert (other.block, other.thread) != (report.block, report.thread)
    message = str(caught.value)
    for text in (fault.kind, fault.array, Path(report.file).name, f"line {report.line}", "block", "thread"):
        assert text in message, message


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_clean_program(program: Probe) -> None:
    """Test that a correct program runs under the sanitizer with the right results."""
    arguments = program.copies()
    with wf.sanitize():
        weft.kernel(**program.options)(program.function)[program.launch](*arguments)
    for found, right in zip(arguments, program.wanted(), strict=True):
        same(found, right, program.ulps)


def test_the_setting_does_the_same() -> None:
    with override(sanitize=True), pytest.raises(weft.SanitizerError):
        launch(FAULTS[0])


def test_without_it_nothing_is_said() -> None:
    """Test that an ordinary launch does not report a race."""
    x = np.arange(8.0)

    @weft.kernel
    def kernel(x: Any) -> None:
        x[0] = cuda.threadIdx.x

    kernel[1, 8](x)
    assert 0 <= x[0] < 8


def test_device_memory_once_written_is_initialized() -> None:
    @weft.kernel
    def fill(x: Any) -> None:
        x[cuda.grid(1)] = 1.0

    @weft.kernel
    def double(x: Any) -> None:
        x[cuda.grid(1)] *= 2.0

    x = cuda.device_array(8)
    with wf.sanitize():
        fill[1, 8](x)
        double[1, 8](x)
    np.testing.assert_array_equal(x.copy_to_host(), 2.0)


def test_an_index_computed_from_a_float_is_checked() -> None:
    @wf.kernel
    def count(x: Any, out: Any) -> None:
        first = int(x[0])
        out[first] += 1
        out[np.int64(x[1]) + 1] += 1

    out = np.zeros(4)
    with wf.sanitize():
        count[1, 1](np.array([1.5, 2.5]), out)
        with pytest.raises(weft.SanitizerError):
            count[1, 1](np.array([1.5, 3.5]), out)
    assert out.tolist()[1] >= 1 and out[3] == 1
