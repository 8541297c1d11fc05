"""Tests of the search for parts of the CUDA toolkit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from weft.runtime import find_libdevice, find_tool, override
from weft.runtime.cuda import toolkit

FOLDERS = ("wheel", "conda", "prefix", "home", "path", "cuda", "cuda-12.9", "cuda-13.1", "debian")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return temporary folders that replace the places where weft looks for the CUDA toolkit. The result is a dict from names of places to paths.

    At first, only the folder with the name "prefix" exists.
    """
    found = {name: tmp_path / name for name in FOLDERS}
    monkeypatch.setattr(toolkit, "SYSTEM", tmp_path)
    monkeypatch.setattr(toolkit, "DISTRIBUTION", (found["debian"],))
    monkeypatch.setattr(toolkit, "_wheels", lambda: [found["wheel"]])
    monkeypatch.setattr(sys, "prefix", str(found["prefix"]))
    (found["prefix"] / "conda-meta").mkdir(parents=True)
    return found


def searching(folders: dict[str, Path]) -> Any:
    return override(conda_prefix=str(folders["conda"]), cuda_home=str(folders["home"]), cuda_path=str(folders["path"]))


def put(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "libdevice.10.bc"
    file.write_bytes(b"BC")
    return file


ORDER = ("wheel", "conda", "prefix", "home", "path", "cuda", "cuda-13.1", "cuda-12.9", "debian")


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_order_of_folders(folders: dict[str, Path], first: int) -> None:
    wanted = [put(folders[name] / "nvvm" / "libdevice") for name in ORDER[first:]]
    with searching(folders):
        assert find_libdevice() == wanted[0]


@pytest.mark.parametrize(
    "inner", ["nvvm/libdevice", "libdevice", "targets/sbsa-linux/nvvm/libdevice", "Library/nvvm/libdevice"]
)
def test_layouts_of_folders(folders: dict[str, Path], inner: str) -> None:
    wanted = put(folders["home"] / inner)
    with searching(folders):
        assert find_libdevice() == wanted


def test_commands(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    tool = folders["conda"] / "bin" / "nvdisasm"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", "")
    with searching(folders):
        assert find_tool("nvdisasm") is None, "it cannot be run"
        tool.chmod(0o755)
        assert find_tool("nvdisasm") == str(tool)


def test_nothing_there(folders: dict[str, Path]) -> None:
    with searching(folders):
        assert find_libdevice() is None
        assert toolkit.toolkit_folders() == [folders["prefix"]]
