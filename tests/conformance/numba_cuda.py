"""A command that runs numba-cuda's unmodified tests on `weft.cuda`.

``python -m tests.conformance.numba_cuda FOLDER [PART_OF_A_FILE_NAME ...]``, where FOLDER is an unpacked wheel of
numba-cuda, which is not part of this project. Each test file runs in a child process, in which ``numba.cuda`` is
`weft.cuda`. A test that ends its process, or takes more than `SILENCE` seconds, counts as failed, and a new process
continues with the next test. Some files need the packages cffi and nvidia-nvjitlink. The command prints a line for each
file, then the causes of failures by frequency, the reasons why other tests do not count, and the listed differences
without a failing test. ``--failures`` also prints each failing test with its cause.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import queue
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.conformance.numba_cuda_differences import DIFFERENCES, entry_for

SILENCE = 400  # maximum seconds between two messages of the child process

# Files that test internals of Numba, which programs do not use: beginning of the path -> why it is not run.
OUT_OF_SCOPE: dict[str, str] = {
    "benchmarks/": "times of launches",
    "cudasim/": "Numba's simulator",
    "nrt/": "Numba's reference-counted allocations in kernels",
    "core/": "pickling and name mangling inside Numba",
    "nocuda/test_cache_version": "file format of Numba's cache",
    "nocuda/test_dummyarray": "an internal class that computes strides",
    "nocuda/test_function_resolution": "Numba's typing templates",
    "nocuda/test_library_lookup": "Numba's internal search functions (weft's own are in tests/runtime/cuda/test_toolkit.py)",
    "nocuda/test_nvvm": "libNVVM, which weft does not use",
    "cudadrv/test_context_stack": "driver calls made directly",
    "cudadrv/test_cuda_driver": "driver calls made directly, and launches of loaded modules",
    "cudadrv/test_deallocations": "the deallocation queue of Numba's memory manager",
    "cudadrv/test_emm_plugins": "memory manager plug-ins: weft shares memory by protocols",
    "cudadrv/test_init": "Numba's driver initialization, with functions of it replaced",
    "cudadrv/test_inline_ptx": "LLVM IR written by the test",
    "cudadrv/test_linkable_code": "linked code, which needs a GPU (weft's own tests: dsl/kernel/library/test_linking.py)",
    "cudadrv/test_linker": "linked code, which needs a GPU (weft's own tests: dsl/kernel/library/test_linking.py)",
    "cudadrv/test_managed_alloc": "driver calls made directly",
    "cudadrv/test_module_callbacks": "callbacks of linked code, which needs a GPU",
    "cudadrv/test_nvjitlink": "linked code, which needs a GPU (weft's own tests: dsl/kernel/library/test_linking.py)",
    "cudadrv/test_nvrtc": "Numba's own wrapper of NVRTC",
    "cudadrv/test_nvvm_driver": "libNVVM, which weft does not use",
    "cudadrv/test_host_alloc": "driver calls made directly",
    "cudapy/test_analysis": "passes over Numba's IR",
    "cudapy/test_bfloat16_bindings": "bindings generated from CUDA's headers",
    "cudapy/test_byteflow": "Numba's bytecode analysis",
    "cudapy/test_caching": "files of Numba's cache (weft's own are in tests/runtime/test_cache.py)",
    "cudapy/test_cffi": "linked code, which needs a GPU (weft's own tests: dsl/kernel/library/test_linking.py)",
    "cudapy/test_copy_propagate": "passes over Numba's IR",
    "cudapy/test_cupy_bfloat16_interop": "needs CuPy",
    "cudapy/test_debuginfo": "text of Numba's debug information",
    "cudapy/test_extending": "Numba's extension API: in weft, dataclasses and plain functions",
    "cudapy/test_fp8_bindings": "bindings generated from CUDA's headers",
    "cudapy/test_inline": "Numba's inliner, seen in its IR",
    "cudapy/test_ir": "classes of Numba's IR",
    "cudapy/test_launch_config_sensitive": "an internal mark of Numba's cache",
    "cudapy/test_make_function_to_jit_function": "passes over Numba's IR",
    "cudapy/test_numba_interop": "the CPU compiler of Numba",
    "cudapy/test_overload": "Numba's extension API: in weft, dataclasses and plain functions",
    "cudapy/test_serialize": "pickling inside Numba",
    "cudapy/test_tracing": "Numba's tracing",
    "cudapy/test_typeconv": "Numba's conversion rules",
    "cudapy/test_typeinfer": "Numba's type inference",
    "doc_examples/test_cpointer": "linked CUDA C, which needs a GPU",
    "doc_examples/test_ffi": "linked CUDA C, which needs a GPU",
}

# Modules of Numba that weft lacks: name -> their purpose. Tests that use their objects are not run.
INTERNALS: dict[str, str] = {
    "core": "Numba's IR and passes",
    "typing": "Numba's typing templates",
    "typeconv": "Numba's conversion rules",
    "extending": "Numba's extension API",
    "memory_management": "Numba's allocations in kernels",
    "datamodel": "Numba's data models",
    "descriptor": "Numba's target objects",
    "compiler": "Numba's compiler pipeline",
    "np": "Numba's NumPy support",
    "cudaimpl": "Numba's lowering",
    "cudadecl": "Numba's typing",
    "cudamath": "Numba's typing",
    "cudadrv": "Numba's driver wrapper",
    "libdevicefuncs": "Numba's table of libdevice",
    "deviceufunc": "Numba's ufunc engine",
    "launchconfig": "an internal mark of Numba's cache",
    "codegen": "Numba's code generation",
    "simulator": "Numba's simulator",
    "flags": "Numba's compiler pipeline",
    "serialize": "pickling inside Numba",
    "dispatcher": "Numba's dispatcher class",
    "models": "Numba's data models",
    "lowering": "Numba's lowering",
    "locks": "Numba's locks",
    "cuda_paths": "Numba's search for the toolkit",
    "cgutils": "Numba's lowering",
    "ufuncs": "Numba's typing",
    "misc": "Numba's internals",
    "cext": "Numba's C extension",
    "kernels": "a transposition with a kernel of Numba's own: in weft, `.T`",
    "vectorizers": "Numba's ufunc engine",
}

# Errors of tests that use such an object without calling it: pattern -> why it is not counted.
INTERNAL_CAUSES: dict[str, str] = {
    r"has no attribute '(memalloc|memhostalloc|memallocmanaged|mempin|memunpin)'": "Numba's memory manager",
    r"has no attribute '_numba_type_'": "Numba's type objects on arrays",
    r"has no attribute '(_cres|_codelibrary|targetctx|typingctx|_type_max|_compile_for_args)'": "Numba's dispatcher class",
    r"numba\.cuda\.\w+": "objects of Numba",
    r"is a function of linked GPU code: this kernel needs a GPU": "linked code, which needs a GPU",
}


def find_tests(folder: Path) -> Path:
    """Return the folder of tests inside an unpacked wheel."""
    found = sorted(folder.glob("**/numba/cuda/tests/cudapy"))
    if not found:
        sys.exit(f"{folder} has no numba/cuda/tests: unpack a wheel of numba-cuda there")
    return found[0].parent


def reason_not_run(name: str) -> str | None:
    """Return why a file is not run, or None if it is run."""
    return next((reason for part, reason in OUT_OF_SCOPE.items() if name.startswith(part)), None)


def run_file(folder: Path, name: str) -> dict[str, tuple[str, str]]:
    """Run all tests of a file.

    Return a dict from the names of the tests to the outcomes and the reasons of failures.
    """
    results: dict[str, tuple[str, str]] = {}
    while True:
        running, ended = _run_child(folder, name, results)
        if ended or running is None:
            if not ended:
                results["(the file)"] = ("failed", "the process ended")
            return results
        results.setdefault(running, ("failed", "the process ended, or the test took too long"))


def _run_child(folder: Path, name: str, results: dict[str, tuple[str, str]]) -> tuple[str | None, bool]:
    """Run the remaining tests of a file in a child process.

    Return the unfinished test, or None, and whether all tests have ended.
    """
    environment = dict(
        os.environ, WEFT_DEVICE="cpu", PYTHONPATH=os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")])
    )
    command = [sys.executable, "-m", "tests.conformance.numba_cuda_child", str(folder), name]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(json.dumps(sorted(results)))
    child.stdin.close()
    lines: queue.Queue[str | None] = queue.Queue()

    def read(stream: Any) -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, args=(child.stdout,), daemon=True).start()
    running, ended = None, False
    while True:
        try:
            line = lines.get(timeout=SILENCE)
        except queue.Empty:
            child.kill()
            break
        if line is None:
            break
        if not line.startswith("\x01"):
            continue
        event = json.loads(line[1:])
        match event:
            case ["start", test]:
                running = test
            case ["result", test, outcome, cause]:
                results[test] = (outcome, cause)
                running = None
            case ["end"]:
                ended = True
    child.wait()
    return running, ended


def simplify(cause: str) -> str:
    """Return the cause of a failure without details that differ between tests."""
    first = cause.strip().splitlines()[0] if cause.strip() else "?"
    return re.sub(r"0x[0-9a-f]+|\d+", "#", first)[:140]


def main() -> int:
    """Run the files, and return the number of failed tests without a known reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--failures", action="store_true")
    options = parser.parse_intermixed_args()
    tests = find_tests(options.folder)
    names = sorted(str(p.relative_to(tests).with_suffix("")) for p in tests.glob("*/test_*.py"))
    if options.parts:
        names = [n for n in names if any(part in n for part in options.parts)]
    totals: collections.Counter[str] = collections.Counter()
    causes: collections.Counter[str] = collections.Counter()
    left_out: collections.Counter[str] = collections.Counter()
    needed: set[str] = set()  # entries of `DIFFERENCES`
    for name in names:
        reason = reason_not_run(name)
        if reason is not None:
            print(f"{name:44} out of scope: {reason}")
            continue
        results = run_file(tests, name)
        counts: collections.Counter[str] = collections.Counter()
        for test, (outcome, cause) in results.items():
            entry = entry_for(f"{name}::{test}")
            known = DIFFERENCES[entry] if entry is not None else None
            inside = next(
                (why for sign, why in INTERNAL_CAUSES.items() if re.search(sign, cause.partition("\n")[0])), None
            )
            if outcome == "failed" and entry is not None:
                outcome = "differs"
                needed.add(entry)
            elif outcome == "failed" and inside is not None:
                outcome, known = "internal", inside
            counts[outcome] += 1
            if outcome == "failed":
                causes[simplify(cause)] += 1
                if options.failures:
                    print(f"    {test}\n        " + cause.strip().replace("\n", "\n        ")[:1500])
            elif outcome != "passed":
                left_out[f"{outcome}: {known or simplify(cause)}"] += 1
        totals += counts
        print(f"{name:44} " + ", ".join(f"{counts[k]} {k}" for k in OUTCOMES if counts[k]), flush=True)
    print("\n" + ", ".join(f"{totals[k]} {k}" for k in OUTCOMES))
    for title, table in (("causes of failures", causes), ("not run", left_out)):
        print(f"\n{title}:")
        for cause, count in table.most_common(60):
            print(f"{count:5} {cause}")
    print("\nlisted differences without a failing test:")
    print(*(entry for entry in DIFFERENCES if entry.startswith(tuple(names)) and entry not in needed), sep="\n")
    return totals["failed"]


OUTCOMES = ("passed", "failed", "differs", "skipped", "internal")

if __name__ == "__main__":
    sys.exit(min(main(), 125))
