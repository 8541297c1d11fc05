"""The CUDA device through cuda.bindings itself, on a library that stands in for the driver's. Each in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stand_in.library import MACHINES

ROOT = Path(__file__).resolve().parents[2]

pytest.importorskip("cuda.bindings.driver")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in MACHINES, reason="the library is written for Linux"
)


def child(folder: Path, what: str) -> dict[str, str]:
    """What a process says, by the first word of each line."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.bindings_child", str(folder), what],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "WEFT_CACHE_DIR": str(folder / "cache"), "PATH": ""},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in done.stdout.splitlines()}


def test_everything_once(tmp_path: Path) -> None:
    first = child(tmp_path, "work")
    assert first["probe"] == "ok Stand-in"
    assert first["device"] == "cuda:0 sm_90"
    assert first["launches"].startswith("True graphs ")
    assert int(first["launches"].split()[-1]) >= 1
    assert first["bytes"] == "(1000,) True"
    second = child(tmp_path, "work")
    assert second["modules"] == "", "a process whose kernels are in the cache loads no compiler"
    assert {**second, "modules": first["modules"]} == first


def test_a_lost_device(tmp_path: Path) -> None:
    said = child(tmp_path, "lose")
    assert "CUDA_ERROR_ILLEGAL_ADDRESS in or after kernel fused" in said["lost"]
    assert "restart the process" in said["lost"]
    assert said["silent"] == "True"
    assert said["cpu"] == "20.0"


def test_a_process_ends_while_a_kernel_does_not(tmp_path: Path) -> None:
    assert child(tmp_path, "hang")["hang"] == "4"
