"""First evaluations in new processes, with an empty cache folder, and what ends or hinders a process while it compiles."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from weft.codegen import host_has_masks, is_host_described
from weft.codegen.host_target import host_target

HEAD = """
import os, sys
import numpy as np
import weft as wf
"""


def run(text: str, folder: Path, **variables: str) -> str:
    """Run a program with the defaults of a user and a cache folder; return what it prints."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    environment = {**kept, "WEFT_CACHE_DIR": str(folder), **variables}
    done = subprocess.run(
        [sys.executable, "-c", HEAD + text], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_interpreted_loads_neither_planner_nor_compiler(tmp_path: Path) -> None:
    found = run(
        """
x, y = (wf.asarray(np.linspace(0, k, 1_000_000)) for k in (1, 2))
z = (x + y) * 0.5 - x * y
z = (z * z + x + 1.0) / (y + 2.0) - 3.0
values = np.asarray(z), np.asarray((x * y).sum())
heavy = "llvmlite weft.codegen.compile weft.codegen.passes weft.fusion.planning weft.fusion.body"
print(*[name for name in heavy.split() if name in sys.modules])
assert not wf.statistics()["plans"]
""",
        tmp_path,
    )
    assert not found.strip()


def test_masks_are_as_the_compiler_says() -> None:
    assert host_has_masks() == host_target().has_masks
    assert is_host_described()
