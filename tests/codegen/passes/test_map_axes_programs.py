"""Tests of random array programs that are mapped to GPU threads and interpreted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def _run(programs: int, seed: int) -> str:
    command = [
        sys.executable,
        "-m",
        "tests.codegen.threaded_programs",
        "--programs",
        str(programs),
        "--seed",
        str(seed),
    ]
    path = {
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "PATH": "",
        "WEFT_CACHE": "0",
        "WEFT_IMMEDIATE": "0",
        "WEFT_INTERPRET": "never",
    }
    done = subprocess.run(command, cwd=ROOT, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_programs() -> None:
    found = _run(8, 1000)
    assert "8 programs, 0 differ" in found
    for scheme in ("elements", "items", "rows"):
        assert scheme in found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 1000, 200))
def test_many_programs(seed: int) -> None:
    assert "200 programs, 0 differ" in _run(200, seed)
