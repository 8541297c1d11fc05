"""First evaluations in new processes, with an empty cache folder, and what ends or hinders a process while it compiles."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.codegen import host_has_masks, is_host_described
from weft.codegen.host_target import host_target

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of address space and /proc are Linux's")

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


ROOM = """
import resource

def limit(room):
    used = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) << 10
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
"""


@linux
def test_no_address_space_for_the_compiler_is_a_memory_error(tmp_path: Path) -> None:
    found = run(
        ROOM
        + """
x = wf.asarray(np.arange(100_000.0) / 100_000)
wf.evaluate(x + 1)
for room in (10 << 20, 50 << 20, 100 << 20):
    limit(room)
    try:
        wf.evaluate(wf.exp(x) * 2)
    except MemoryError:
        print("MemoryError")
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
print(np.allclose(wf.exp(x) * 2, np.exp(np.asarray(x)) * 2))
""",
        tmp_path,
    )
    assert found.split() == ["MemoryError"] * 3 + ["True"]


CHAIN = """
def chain(x, k):
    for _ in range(k):
        x = wf.exp(x * 0.5) - wf.sin(x)
    return x
"""


def test_a_forked_child_computes_while_others_compile(tmp_path: Path) -> None:
    """A fork at any time while another thread plans and compiles gives a child that plans and compiles."""
    found = run(
        CHAIN
        + """
import threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # (of forking with threads)
os.environ["WEFT_INTERPRET"] = "never"
x = wf.asarray(np.linspace(0, 1, 100_000))
wanted = np.asarray(x + 3)
stop = threading.Event()

def compile_on():
    k = 2
    while not stop.is_set():
        wf.evaluate(chain(x, k))
        k += 1

other = threading.Thread(target=compile_on)
other.start()
for k in range(8):
    time.sleep(0.03 * k)
    child = os.fork()
    if not child:
        import signal
        signal.alarm(60)
        good = np.array_equal(np.asarray(x + 3), wanted) and np.isfinite(np.asarray(wf.cos(x) * (k + 2))).all()
        os._exit(0 if good else 1)
    print(os.waitpid(child, 0)[1])
stop.set()
other.join()
""",
        tmp_path,
    )
    assert found.split() == ["0"] * 8
