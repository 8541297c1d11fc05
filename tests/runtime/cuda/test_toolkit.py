"""Tests of the search for parts of the CUDA toolkit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from weft.runtime import find_libdevice, find_tool, override
from weft.runtime.cuda import toolkit

PLACES = ("wheel", "conda", "prefix", "home", "path", "cuda", "cuda-12.9", "cuda-13.1", "debian")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return a folder for each searched location, by name. The folders do not exist yet."""
    found = {name: tmp_path / name for name in PLACES}
    monkeypatch.setattr(toolkit, "SYSTEM", tmp_path)
    monkeypatch.setattr(toolkit, "DISTRIBUTION", (found["debian"],))
    monkeypatch.setattr(toolkit, "_wheels", lambda: [found["wheel"]])
    monkeypatch.setattr(sys, "prefix", str(found["prefix"]))
    (found["prefix"] / "conda-meta").mkdir(parents=True)
    return found


def searching(places: dict[str, Path]) -> Any:
    return override(conda_prefix=str(places["conda"]), cuda_home=str(places["home"]), cuda_path=str(places["path"]))


def put(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "libdevice.10.bc"
    file.write_bytes(b"BC")
    return file


ORDER = ("wheel", "conda", "prefix", "home", "path", "cuda", "cuda-13.1", "cuda-12.9", "debian")


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_order_of_places(places: dict[str, Path], first: int) -> None:
    wanted = [put(places[name] / "nvvm" / "libdevice") for name in ORDER[first:]]
    with searching(places):
        assert find_libdevice() == wanted[0]


@pytest.mark.parametrize(
    "inner", ["nvvm/libdevice", "libdevice", "targets/sbsa-linux/nvvm/libdevice", "Library/nvvm/libdevice"]
)
def test_layouts_of_folders(places: dict[str, Path], inner: str) -> None:
    wanted = put(places["home"] / inner)
    with searching(places):
        assert find_libdevice() == wanted


def test_commands(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    tool = places["conda"] / "bin" / "nvdisasm"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", "")
    with searching(places):
        assert find_tool("nvdisasm") is None, "it cannot be run"
        tool.chmod(0o755)
        assert find_tool("nvdisasm") == str(tool)


def test_nothing_there(places: dict[str, Path]) -> None:
    with searching(places):
        assert find_libdevice() is None
        assert toolkit.toolkit_folders() == [places["prefix"]]
