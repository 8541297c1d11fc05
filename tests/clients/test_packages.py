"""Tests that programs with other packages have the same output under ``weft run``.

The programs pass NumPy arrays to the packages. Opt-in: ``pytest -m clients``. Programs whose packages are missing are
skipped.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(Path(__file__).with_name("packages").glob("*.py"), key=lambda path: path.name)

pytestmark = pytest.mark.clients


def missing_packages(path: Path) -> list[str]:
    """Return the packages that a program imports and that are not installed."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return sorted(name for name in {name.partition(".")[0] for name in names} if find_spec(name) is None)


def run(path: Path, cache: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a child process. `options` are Python's options, before the path of the program."""
    own = {"PYTHONPATH": str(ROOT / "src"), "XDG_CACHE_HOME": str(cache), "WEFT_DEVICE": "cpu", "MPLBACKEND": "Agg"}
    command = [sys.executable, *options, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **own}, cwd=cache)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cache folder that all programs share."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program(path: Path, cache: Path) -> None:
    if missing := missing_packages(path):
        pytest.skip(f"not installed: {', '.join(missing)}")
    theirs, ours = run(path, cache), run(path, cache, "-m", "weft", "run")
    assert theirs.returncode == 0, theirs.stderr[-4000:]
    assert ours.returncode == 0, ours.stderr[-4000:]
    assert ours.stdout == theirs.stdout
