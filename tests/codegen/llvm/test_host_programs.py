"""Tests of the results of explicit kernels that are compiled for the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.explicit_kernels import PROGRAMS, warp_reductions
from tests.codegen.llvm.grids import run
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Pointer, resolve_target
from weft.codegen.llvm import host_threads
from weft.codegen.pipeline import run_passes

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("form", ["loops", "coroutines"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "coroutines":
        monkeypatch.setattr(host_threads, "split_at_barriers", lambda kernel: None)
    program = PROGRAMS[name]()
    arguments = []
    for parameter, argument in zip(program.kernel.parameters, program.arguments, strict=True):
        arguments.append(argument.copy() if isinstance(parameter.value.type, Pointer) else argument)
    run(program.kernel, arguments, program.grid, program.block, program.shared_bytes)
    for found, wanted in zip(arguments, program.expected, strict=True):
        if wanted is not None:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x7FFFFFF0])
def test_floats_are_folded_in_one_order(mask: int, dtype: str) -> None:
    kernel = warp_reductions(dtype, "add", mask).kernel
    x = np.random.default_rng(5).normal(size=64).astype(dtype)
    wanted, found = np.zeros_like(x), np.zeros_like(x)
    interpret_kernel(kernel, [x, wanted, mask], grid=(1,), block=(64,))
    run(kernel, [x, found, mask], (1,), (64,))
    np.testing.assert_array_equal(found, wanted)
    for target in ("sm_75", "sm_80"):
        again = np.zeros_like(x)
        interpret_kernel(run_passes(kernel, resolve_target(target)), [x, again, mask], grid=(1,), block=(64,))
        np.testing.assert_array_equal(again, wanted)


def test_random_programs() -> None:
    """Run random programs in a child process, since wrong code may crash the process."""
    command = [sys.executable, "-m", "tests.codegen.random_explicit", "--programs", "6"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "6 programs, 0 differ" in done.stdout
