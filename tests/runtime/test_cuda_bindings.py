"""Tests of the CUDA device with the real cuda.bindings.

The bindings call a stand-in for the driver's library. Most tests run in a child process.
"""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
import sys
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tests.stand_in.library import MACHINES
from weft.runtime.cuda.records import (
    ARGUMENTS,
    ATTRIBUTE_COUNT,
    ATTRIBUTES,
    COOPERATIVE,
    LAUNCH,
    PARAMETERS,
    STREAM,
    LaunchRecord,
    RecordedLaunch,
)

ROOT = Path(__file__).resolve().parents[2]

driver = pytest.importorskip("cuda.bindings.driver")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in MACHINES, reason="the library is written for Linux"
)


def child(folder: Path, what: str) -> dict[str, str]:
    """Run a child process, and return its output as a dict keyed by the first word of each line."""
    paths = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "WEFT_CACHE_DIR": str(folder / "cache"), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.bindings_child", str(folder), what],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**paths, "WEFT_IMMEDIATE": "0"},  # (small arrays must be on the device, too)
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in done.stdout.splitlines()}


def words_of(structure: Any, count: int) -> list[int]:
    """Return a structure of cuda.bindings as a list of 64-bit words."""
    return list((ctypes.c_int64 * count).from_address(structure.getPtr()))


def test_records_have_the_layout_of_the_drivers_structures() -> None:
    function = SimpleNamespace(handle=77, name="k", cooperative=True, origin=None)
    record = LaunchRecord([RecordedLaunch(function, (5, 6, 7), (8, 9, 10), 11, array("q", [1, 2]))])
    size = {
        "gridDimX": 5,
        "gridDimY": 6,
        "gridDimZ": 7,
        "blockDimX": 8,
        "blockDimY": 9,
        "blockDimZ": 10,
        "sharedMemBytes": 11,
    }
    launch = record.parameters(0) - 8 * PARAMETERS
    words = (ctypes.c_int64 * LAUNCH).from_address(launch)
    words[STREAM] = 55

    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    attribute.value.cooperative = 1
    assert words_of(attribute, len(COOPERATIVE)) == list(COOPERATIVE)

    configuration = driver.CUlaunchConfig()
    parameters = driver.CUDA_KERNEL_NODE_PARAMS()
    for name, value in size.items():
        setattr(configuration, name, value)
        setattr(parameters, name, value)
    configuration.hStream = driver.CUstream(55)
    wanted = words_of(configuration, 7)
    assert wanted[:5] == words[:5]
    assert words[ATTRIBUTES] and not wanted[ATTRIBUTES]
    configuration.attrs = [attribute]
    configuration.numAttrs = 1
    assert words_of(configuration, 7)[ATTRIBUTE_COUNT] & 0xFFFFFFFF == words[ATTRIBUTE_COUNT] == 1
    found = list((ctypes.c_int64 * len(COOPERATIVE)).from_address(words_of(configuration, 7)[ATTRIBUTES]))
    assert found == list((ctypes.c_int64 * len(COOPERATIVE)).from_address(words[ATTRIBUTES]))

    parameters.func = driver.CUfunction(77)
    wanted = words_of(parameters, LAUNCH - PARAMETERS)
    assert wanted[:5] == words[PARAMETERS : PARAMETERS + 5]
    assert words[PARAMETERS + 5 :] == [words[ARGUMENTS], 0, 0, 0]
    assert not any(wanted[6:])


def test_everything_once(tmp_path: Path) -> None:
    first = child(tmp_path, "work")
    assert first["probe"] == "ok Stand-in"
    assert first["device"] == "cuda:0 sm_90"
    assert first["launches"].startswith("True graphs ")
    assert int(first["launches"].split()[-1]) >= 1
    assert first["destroyed"] == "1 1"
    assert first["bytes"] == "(1000,) True"
    second = child(tmp_path, "work")
    assert second["modules"] == "", "a process whose kernels are in the cache loads no compiler"
    assert {**second, "modules": first["modules"]} == first


def test_every_function_takes_what_it_is_given(tmp_path: Path) -> None:
    said = child(tmp_path, "calls")
    assert said["facts"] == "8 264 768"
    assert said["shared"] == "264 512"
    assert said["refused"] == "'float' object cannot be interpreted as an integer"
    assert said["gpu"] == f"Stand-in GPU-{UUID(bytes=bytes(range(16)))} 32 True"
    assert said["stream"] == "[0, 1, 2] True 1.5"
    assert said["memory"] == f"3 8000 64 1000 {1 << 30}"
    assert (said["lies0"], said["lies1"]) == ("cuda:0 cuda:0", "cuda:1 cuda:1"), "whose memory it is"
    assert said["streams"] == "True True"
    assert said["texture"] == "True"
    assert said["wrong"] == "[]"
    text = "".join(path.read_text() for path in (ROOT / "runtime/cuda").glob("*.py"))
    named = set(re.findall(r"\b(cu[A-Z][A-Za-z0-9]*[a-z0-9])(?=[\"(])", text))
    # (graphs use native calls, and cuMem is a common prefix of names)
    elsewhere = {name for name in named if name.startswith("cuGraph")} | {"cuModuleLoadDataEx", "cuMem"}
    assert named - elsewhere <= {*said["called"].split()}


def test_a_lost_device(tmp_path: Path) -> None:
    said = child(tmp_path, "lose")
    assert "CUDA_ERROR_ILLEGAL_ADDRESS in or after kernel fused" in said["lost"]
    assert "restart the process" in said["lost"]
    assert said["silent"] == "True"
    assert said["cpu"] == "20.0"


def test_a_process_ends_while_a_kernel_does_not(tmp_path: Path) -> None:
    assert child(tmp_path, "hang")["hang"] == "4"
