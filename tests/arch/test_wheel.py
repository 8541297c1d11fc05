"""Tests that the wheel contains exactly the public modules and the layers' files.

In the source tree, `src/weft` contains the public modules, and links to the folders of the layers.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_wheel_holds_the_folders(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    # (Build from a copy: the wheel would also contain files that an older build left in the tree.)
    tree = tmp_path / "tree"
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "tests", "benchmarks", "docs")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=unwanted)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
        str(tree),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("weft-*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("weft/")}
    wanted = {
        "weft/__init__.py",
        "weft/__main__.py",
        "weft/cuda.py",
        "weft/dask.py",
        "weft/fft.py",
        "weft/linalg.py",
        "weft/numpy_names.pyi",
        "weft/py.typed",
        "weft/random.py",
    }
    for layer in ("dsl", "fusion", "codegen", "runtime"):
        wanted |= {
            f"weft/{p.relative_to(ROOT)}"
            for p in (ROOT / layer).rglob("*.*")
            if p.suffix in (".py", ".pyi", ".ll", ".npy")
        }
    assert held == wanted
