"""Tests that small test kernels, called language probes, have the expected results and compile for a GPU."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import weft
from tests.dsl.kernel.probes import PROBES, Probe, same
from weft import cuda
from weft.dsl.kernel.language.types import typeof
from weft.runtime import CompileError, assemble, override

EACH = pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
QUIET = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")


def make(probe: Probe) -> Any:
    """Return the probe's kernel."""
    return weft.kernel(**probe.options)(probe.function) if probe.options else weft.kernel(probe.function)


def run(probe: Probe) -> tuple[Any, ...]:
    """Launch the probe, and return the arguments after the launch."""
    arguments = probe.copies()
    make(probe)[probe.launch](*arguments, **probe.keywords)
    return arguments


def test_there_are_enough_of_them() -> None:
    names = [probe.name for probe in PROBES]
    assert len(names) >= 120
    assert len(set(names)) == len(names)


@QUIET
@EACH
def test_on_the_cpu(probe: Probe, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = probe.wanted()
    capsys.readouterr()
    for found, right in zip(run(probe), wanted, strict=True):
        same(found, right, probe.ulps)
    assert capsys.readouterr().out == probe.printed


@QUIET
@EACH
def test_as_python(probe: Probe, capsys: pytest.CaptureFixture[str]) -> None:
    """Test the probes as plain Python, which is the reference for compiled kernels."""
    wanted, arguments = probe.wanted(), probe.copies()
    capsys.readouterr()
    with override(kernel_python=True), np.errstate(all="ignore"):
        make(probe)[probe.launch](*arguments, **probe.keywords)
    for found, right in zip(arguments, wanted, strict=True):
        same(found, right, probe.ulps)
    assert capsys.readouterr().out == probe.printed


@pytest.mark.parametrize("probe", [p for p in PROBES if p.ahead], ids=lambda probe: probe.name)
def test_for_a_gpu(probe: Probe) -> None:
    """Test that a probe compiles to PTX for sm_80. If the assembler is installed, it must accept the PTX."""
    types = tuple(typeof(value) for value in bound(probe))
    ptx, result = cuda.compile_ptx(probe.function, types, cc=(8, 0), **compiling(probe))
    assert str(result) in ("void", "none")
    assert ".visible .entry" in ptx and ".target sm_80" in ptx
    try:
        code = assemble(ptx.encode(), "sm_80")
    except CompileError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip("nvJitLink is not installed")
    assert code.code


def bound(probe: Probe) -> list[Any]:
    """Return the probe's arguments, including defaults, in the order of the parameters."""
    given = inspect.signature(probe.function).bind(*probe.arguments, **probe.keywords)
    given.apply_defaults()
    return list(given.arguments.values())


def compiling(probe: Probe) -> dict[str, Any]:
    """Return the probe's options that `compile_ptx` accepts."""
    return {name: value for name, value in probe.options.items() if name in ("debug", "lineinfo", "fastmath", "opt")}


def test_shape_from_the_launch_cannot_be_compiled_ahead() -> None:
    (probe,) = (p for p in PROBES if not p.ahead)
    with pytest.raises(weft.KernelTypeError, match="launch"):
        cuda.compile_ptx(probe.function, tuple(typeof(a) for a in probe.arguments), cc=(8, 0))
