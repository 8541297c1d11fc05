"""Tests that an evaluation of ``wf.exp(x) + y`` runs few functions.

The numbers of source files and of changes of layer are also limited. The evaluation is the first one in a process, with
the plan on disk, or a repeated one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# Maximum numbers of files whose functions run, of changes between layers, and of calls. Imports are not counted.
FIRST = 35, 43, 600
REPEATED = 12, 7, 60

PROGRAM = """
import gc, json, os, sys
import numpy as np
import weft as wf

LAYERS = ("dsl", "fusion", "codegen", "runtime")
ROOT = os.path.dirname(os.path.dirname(os.path.realpath(sys.modules["weft.dsl"].__file__))) + os.sep
x, y = (wf.asarray(np.linspace(k, k + 1, 40_000)) for k in (0, 1))
called, importing = [], 0


def note(frame, event, argument):
    global importing
    code = frame.f_code
    imports = code.co_name == "<module>" or code.co_name == "_find_and_load" and "importlib" in code.co_filename
    if event == "call":
        importing += imports
        if not importing and not code.co_filename.startswith("<"):
            called.append(code.co_filename)
    elif event == "return" and imports and importing:
        importing -= 1


def followed():
    called.clear()
    sys.setprofile(note)
    z = wf.exp(x) + y
    wf.evaluate(z)
    sys.setprofile(None)
    files = [os.path.realpath(name).removeprefix(ROOT) for name in called if os.path.realpath(name).startswith(ROOT)]
    entered = [name.split(os.sep)[0] for name in files]
    entered = [name for name in entered if name in LAYERS]
    changes = sum(a != b for a, b in zip(entered, entered[1:]))
    return list(dict.fromkeys(files)), changes, len(files)


gc.collect()
gc.disable()
first, _, repeated = [followed() for _ in range(3)]
print(json.dumps([first, repeated, wf.statistics()["plans_read"]]))
"""


def test_an_evaluation_can_be_followed(tmp_path: Path) -> None:
    environment = {**os.environ, "WEFT_CACHE_DIR": str(tmp_path), "WEFT_INTERPRET": "never"}
    for _ in range(2):  # (the first process stores the plan)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
    *paths, read = json.loads(done.stdout)
    assert read == 1
    for (files, changes, calls), (most_files, most_changes, most_calls) in zip(paths, (FIRST, REPEATED), strict=True):
        assert len(files) <= most_files, "\n".join(files)
        assert changes <= most_changes and calls <= most_calls, (changes, calls)
