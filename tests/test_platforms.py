"""Tests of the import of weft on supported and unsupported systems."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

import weft


def test_this_machine() -> None:
    weft._check_platform()


@pytest.mark.parametrize(
    ("platform", "remedy"), [("win32", "WSL 2"), ("darwin", "container"), ("freebsd14", "Linux machine")]
)
def test_other_systems(platform: str, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(ImportError, match=f"runs on Linux, and this is {platform}: .*{remedy}"):
        weft._check_platform()


def test_other_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(ImportError, match="PYTHON_GIL=1"):
        weft._check_platform()
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name="pypy"))
    with pytest.raises(ImportError, match="needs CPython, and this is pypy"):
        weft._check_platform()


@pytest.mark.parametrize("frozen", [False, True])
def test_an_import_leaves_no_objects_for_the_next_garbage_collections(frozen: bool) -> None:
    code = f"""
import gc
import numpy
gc.freeze() if {frozen} else gc.collect()
import weft
print(gc.isenabled(), gc.get_freeze_count() > 1000, len(gc.get_objects(0)) + len(gc.get_objects(1)) < 1000)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told == ["True", str(frozen), str(not frozen)]
