"""Tests of the plugin that runs GPU tests in a child process.

A failure or crash does not affect the next test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import os, signal, time
import pytest
from weft.runtime import DeviceLostError
pytestmark = pytest.mark.gpu
lost = []

@pytest.fixture(scope="module")
def once():
    return []

def test_good(once): once.append(1)
def test_same_process(once): assert once == [1]
def test_wrong(): assert 1 == 2
def test_dies(): os.kill(os.getpid(), signal.SIGSEGV)
def test_behind_it(once): assert once == []
def test_loses_the_device():
    lost.append(1)
    raise DeviceLostError("cuda:0 is lost")
def test_behind_that(): assert not lost
def test_skipped(): pytest.skip("not here")
def test_hangs(): time.sleep(100)
def test_last(): pass
"""


def outcomes(tmp_path: Path, text: str, give_up: int = 3) -> tuple[dict[str, str], str, str]:
    """Run tests with pytest. Return their outcomes, pytest's output, and the text of the report."""
    (tmp_path / "test_cases.py").write_text(text)
    limits = f"from tests.gpu import processes\nprocesses.LIMIT, processes.GIVE_UP = 1.5, {give_up}\n"
    (tmp_path / "limits.py").write_text(limits)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{tmp_path}",
        "PYTEST_PLUGINS": "tests.conftest,limits",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # plugins load slowly
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "gpu", "-v", "-W", "ignore", "test_cases.py"]
        + ["--out=found"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=120,
        check=False,
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("test_cases.py::") and "%]" in line]
    report = (tmp_path / "found/gpu-tests.md").read_text()
    return {line[0].partition("::test_")[2]: line[1] for line in lines}, done.stdout, report


@pytest.mark.skipif(sys.platform == "win32", reason="it uses pipes")
def test_each_fails_alone(tmp_path: Path) -> None:
    found, said, report = outcomes(tmp_path, TESTS)
    assert found == {
        "good": "PASSED",
        "same_process": "PASSED",
        "wrong": "FAILED",
        "dies": "FAILED",
        "behind_it": "PASSED",
        "loses_the_device": "FAILED",
        "behind_that": "PASSED",
        "skipped": "SKIPPED",
        "hangs": "FAILED",
        "last": "PASSED",
    }
    assert "assert 1 == 2" in said
    assert "exit -11" in said
    assert "did not end in time" in said
    assert "6 of 10 passed" in report
    assert "cuda-bindings" in report
    listed = json.loads((tmp_path / "found/gpu-tests.json").read_text())["results"]
    assert [bool(result["failed"]) for result in listed] == [value == "FAILED" for value in found.values()]


@pytest.mark.skipif(sys.platform == "win32", reason="it uses pipes")
def test_it_ends_where_nothing_works(tmp_path: Path) -> None:
    text = "import os, pytest\npytestmark = pytest.mark.gpu\n"
    text += "".join(f"def test_{k}(): os._exit(1)\n" for k in range(3))
    found, said, _ = outcomes(tmp_path, text, give_up=1)
    assert set(found.values()) == {"FAILED"} and len(found) == 3
    assert said.count("not run: 1 tests in a row") >= 2
