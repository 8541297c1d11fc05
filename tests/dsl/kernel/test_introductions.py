"""Tests of the programs in `examples/kernels`."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import weft

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "examples" / "kernels"

# program -> arguments of main() for each case; every main() checks its own result
CASES: dict[str, list[tuple[int, ...]]] = {
    "vector_add": [(100_000,), (1,), (127,), (129,)],
    "stride_loop": [(10_007,), (1,), (511,), (513,)],
    "tiled_matmul": [(70, 45, 52), (16, 16, 16), (1, 1, 1), (15, 33, 17)],
    "constant_memory": [(1000,), (1,), (4,)],
    "streams_and_events": [(50_000,), (1,)],
    "heat_rod": [(1001, 50), (300, 7), (3, 1)],
    "warp_sum": [(100_003,), (1,), (1024,)],
    "pi_by_chance": [(1000, 100), (1, 1000)],
}


def load(name: str) -> ModuleType:
    """Execute the program as a new module, and return the module."""
    spec = spec_from_file_location(f"introduction_{name}", PROGRAMS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")
@pytest.mark.parametrize(("name", "sizes"), [(name, sizes) for name, cases in CASES.items() for sizes in cases])
def test_program(name: str, sizes: tuple[int, ...]) -> None:
    load(name).main(*sizes)


def test_every_program_has_its_cases() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(CASES)


@pytest.mark.gpu
def test_launching_with_numpy_arrays_warns_of_the_copies() -> None:
    with pytest.warns(weft.PerformanceWarning, match="cop"):
        load("stride_loop").main(100)


def test_no_warning_where_nothing_is_copied() -> None:
    """Test that a launch on the CPU device issues no warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load("stride_loop").main(100)


def test_as_a_script() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "tiled_matmul.py"), "20", "17", "18"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[[")
