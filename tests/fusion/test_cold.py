"""Tests of new processes with an empty cache folder."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from unittest import mock

import pytest

from weft.codegen import host_has_masks, is_host_described, order_target, streaming_threshold
from weft.codegen import host_target as module
from weft.codegen.host_target import host_target

pytestmark = pytest.mark.cpu

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of address space and /proc are Linux's")
listed = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() != "x86_64",
    reason="no system else lists a CPU's features",
)

HEAD = """
import os, sys
import numpy as np
import weft as wf
"""


def run(text: str, folder: Path, **variables: str) -> str:
    """Run a program in a new process, and return its output. The program begins with the imports in the constant `HEAD`.

    Settings have their defaults, except for the cache folder and `variables`.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    environment = {**kept, "WEFT_CACHE_DIR": str(folder), **variables}
    done = subprocess.run(
        [sys.executable, "-c", HEAD + text], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CHAIN_AND_SUM = """
x, y = (wf.asarray(np.linspace(0, k, 1_000_000)) for k in (1, 2))
z = (x + y) * 0.5 - x * y
z = (z * z + x + 1.0) / (y + 2.0) - 3.0
values = np.asarray(z), np.asarray((x * y).sum())
"""
IRREGULAR_SUM = """
x, w = wf.asarray(np.ones((30, 40, 40, 3))), wf.asarray(np.ones((5, 5, 3, 6)))
values = np.asarray((x[:, 3:8, 4:9, :, None] * w[None]).sum(axis=(1, 2, 3)))
assert sys.modules["weft.fusion.run.reduce_arrays"]._trees
"""
LOADED = """
print(*[name for name in heavy.split() if name in sys.modules])
assert not wf.statistics()["plans"] and wf.statistics()["interpreted"]
"""


@pytest.mark.parametrize(
    ("text", "heavy"),
    [
        (
            CHAIN_AND_SUM,
            "llvmlite weft.codegen.compile weft.codegen.passes weft.fusion.run.planning weft.fusion.plan.body",
        ),
        pytest.param(IRREGULAR_SUM, "llvmlite weft.fusion.run.planning", marks=listed),
    ],
)
def test_what_is_interpreted_loads_neither_planner_nor_compiler(text: str, heavy: str, tmp_path: Path) -> None:
    assert not run(f"heavy = {heavy!r}{text}{LOADED}", tmp_path, WEFT_IMMEDIATE="0").strip()


def test_orders_are_those_for_the_target_that_the_compiler_says() -> None:
    target = host_target()
    assert host_has_masks() == target.has_masks and is_host_described() and order_target() is target
    with mock.patch.object(module, "is_host_described", return_value=False):
        found = order_target()
    same = ("kind", "vector_bytes", "threads", "has_masks", "machine")
    assert all(attrgetter(name)(found) == attrgetter(name)(target) for name in same)
    assert streaming_threshold(found) == streaming_threshold(target)


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


COMPILE_ON = (
    CHAIN
    + """
import threading, time
x = wf.asarray(np.linspace(0, 1, 100_000))
stop = threading.Event()

def compile_on():
    k = 20
    while not stop.is_set():
        wf.evaluate(chain(x, k))
        k += 1
"""
)


def test_a_forked_child_computes_while_others_compile(tmp_path: Path) -> None:
    """Test that a forked child can plan and compile although its parent was compiling at the fork."""
    found = run(
        COMPILE_ON
        + """
import signal, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # (of forking with threads)
wanted = np.asarray(x + 3)
other = threading.Thread(target=compile_on)
other.start()
for k in range(8):
    time.sleep(0.03 * k)
    child = os.fork()
    if not child:
        signal.alarm(60)
        good = np.array_equal(np.asarray(x + 3), wanted) and np.isfinite(np.asarray(wf.cos(x) * (k + 2))).all()
        os._exit(0 if good else 1)
    print(os.waitpid(child, 0)[1])
stop.set()
other.join()
""",
        tmp_path,
        WEFT_INTERPRET="never",
    )
    assert found.split() == ["0"] * 8


@pytest.mark.parametrize("milliseconds", [5, 200, 350, 500, 650])
def test_a_process_ends_while_a_thread_compiles(milliseconds: int, tmp_path: Path) -> None:
    found = run(
        COMPILE_ON
        + f"""
threading.Thread(target=compile_on, daemon=True).start()
time.sleep({milliseconds} / 1000)
print("end")
""",
        tmp_path,
        WEFT_INTERPRET="never",
    )
    assert found.split() == ["end"]


@linux
@pytest.mark.parametrize("again", [True, False])
def test_an_interrupt_is_raised_while_a_kernel_is_compiled(again: bool, tmp_path: Path) -> None:
    """Interrupt a process while it compiles a kernel. Test that the process can then evaluate the same array, and that it can exit."""
    found = run(
        CHAIN
        + f"""
import _thread, signal, time
x = wf.asarray(np.linspace(0, 1, 100_000))
signal.signal(signal.SIGALRM, signal.default_int_handler)
for k in range(2, 14):
    y = chain(x, k)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02 * k)
        wf.evaluate(y)
        time.sleep(10)
    except KeyboardInterrupt:
        print("interrupt")
        if {again}:
            wanted = np.linspace(0, 1, 100_000)
            for _ in range(k):
                wanted = np.exp(wanted * 0.5) - np.sin(wanted)
            assert np.allclose(y, wanted)
        elif k == 9:
            break
""",
        tmp_path,
        WEFT_INTERPRET="never",
    )
    assert found.split() == ["interrupt"] * (12 if again else 8)


def test_numpys_random_modules_are_imported_without_interrupts(tmp_path: Path) -> None:
    """Test that another thread imports the compiled modules of `numpy.random`. Their import swallows interrupts."""
    found = run(
        """
import threading

class Finder:
    def find_spec(name, path=None, target=None):
        if name.startswith("numpy.random"):
            print(threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Finder)
wf.evaluate(wf.exp(wf.asarray(np.linspace(0, 1, 100_000)) * 0.5))
import weft.runtime.cpu.random.bit_generators
""",
        tmp_path,
        WEFT_INTERPRET="never",
    )
    assert set(found.split()) == {"False"}


FORMS = """
import time
def used():
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return [int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon")]

x, y = wf.asarray(np.linspace(0.1, 1, 20_000)), wf.asarray(np.linspace(1, 2, 20_000))
wf.evaluate(x + y)
before = used()
for k in range(1000):
    z = x
    for bit in bin(k + 1)[2:]:
        z = z + x if bit == "1" else z * y
    wf.evaluate(z)
print(wf.statistics()["plans"], wf.statistics()["compilations"], *(now - then for now, then in zip(used(), before)))
while wf.statistics()["compiling"]:
    time.sleep(0.01)
"""


@linux
def test_forms_that_do_not_come_back_compile_nothing_and_keep_little(tmp_path: Path) -> None:
    later = []
    for _ in range(3):
        plans, compilations, resident, own = run(FORMS, tmp_path).split()
        assert (plans, compilations) == ("0", "0") and float(own) < 50
        later.append(float(resident))
    # The first process compiles the runtime's native code, and LLVM's library stays mapped. A later process may compile
    # a function that the first process was too slow to need, so two later processes are tried.
    assert min(later[1:]) < 50


PROGRAM = """
x = wf.asarray(np.linspace(0, 1, 100_000))
for _ in range(3):
    found = np.asarray(wf.exp(x) * 2 + wf.sqrt(x).sum())
print(np.allclose(found, np.exp(np.asarray(x)) * 2 + np.sqrt(np.asarray(x)).sum()))
"""


@linux
@pytest.mark.parametrize("bytes_of_a_file", [0, 1000, 5000])
def test_a_cache_folder_that_takes_no_long_files(bytes_of_a_file: int, tmp_path: Path) -> None:
    text = f"""
import resource, warnings
warnings.simplefilter("always")
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes_of_a_file}, resource.RLIM_INFINITY))
"""
    found = run(text + PROGRAM, tmp_path)
    assert found.split() == ["True"]
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".weft"]
    assert run(PROGRAM, tmp_path).split() == ["True"]


def test_a_cache_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run(PROGRAM, tmp_path / "file" / "folder").split() == ["True"]


def test_processes_with_one_empty_folder_at_a_time(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: run(PROGRAM, tmp_path), range(4))]
    assert found == ["True\n"] * 4
