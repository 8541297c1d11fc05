"""Reports of ``weft info``, ``weft doctor`` and ``weft cache``."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from weft.codegen import resolve_target
from weft.dsl.arrays.ufunc import UFUNCS
from weft.dsl.functions.creation import asarray
from weft.dsl.plans import compile
from weft.runtime import (
    MissingAssemblerError,
    counted,
    disk_cache,
    find_libdevice,
    find_tool,
    override,
    probe,
    set_variables,
)
from weft.runtime import device as use_device

PACKAGES = ("weft", "numpy", "llvmlite", "sympy", "cuda-core", "cuda-bindings")
GPU_PACKAGES = {
    "nvidia-nvjitlink": "nvidia-nvjitlink-cu12",
    "nvidia-nvvm": "nvidia-cuda-nvcc-cu12",
}  # package for CUDA 13 -> package for CUDA 12
TARGETS = ("host", "sm_75", "sm_80", "sm_90", "sm_100", "sm_120")

TOLERANCE = 1e-4  # of results that `doctor` checks: float32 numbers up to 43


def installed_version(name: str) -> str:
    """Return the version of an installed package, or "not installed"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _describe_gpu_package(newer: str, older: str) -> str:
    """Return the version of a package that only GPUs need, or advice on its installation.

    `newer` and `older` are two names of the package.
    """
    for name in (newer, older):
        if (found := installed_version(name)) != "not installed":
            return f"{name} {found}"
    return f"{newer:16} not installed; for a GPU: pip install 'weft[cuda13]' (or cuda12)"


def info() -> str:
    """Return versions, devices and the result of the search for CUDA, as text for bug reports."""
    lines = [f"python        {sys.version.split()[0]} on {platform.platform()}"]
    lines += [f"{name:13} {installed_version(name)}" for name in PACKAGES]
    lines += [_describe_gpu_package(*names) for names in GPU_PACKAGES.items()]
    target = resolve_target("host")
    lines.append(f"cpu           {target.arch}, {target.threads} threads, {8 * target.vector_bytes}-bit vectors")
    found = probe()
    lines.append(f"cuda          {found.status}: {found.message}")
    if found.remedy:
        lines.append(f"              to fix it: {found.remedy}")
    for k, gpu in enumerate(found.devices):
        lines.append(
            f"cuda:{k}        {gpu.name}, compute capability {gpu.capability[0]}.{gpu.capability[1]}, {gpu.memory >> 20} MiB"
        )
    lines.append(f"libdevice     {find_libdevice() or 'not found: pip install nvidia-nvvm'}")
    lines.append(
        f"disassembler  {find_tool('nvdisasm') or find_tool('cuobjdump') or 'not found: pip install nvidia-cuda-nvdisasm'}"
    )
    lines += [f"{name}={text}" for name, text in set_variables().items()]
    return "\n".join(lines)


def cache(action: str) -> str:
    """Return a report on the disk cache, after removing all entries if `action` is "clear"."""
    found = disk_cache()
    if found is None:
        return "the disk cache is switched off (WEFT_CACHE=0)"
    if action == "clear":
        return f"removed {counted(found.clear(), 'entry', 'entries')} from {found.folder}"
    facts = found.info()
    return f"{facts['folder']}: {counted(facts['entries'], 'entry', 'entries')}, {facts['bytes']:,} of {facts['limit']:,} bytes"


def doctor() -> int:
    """Check that kernels compile for every target and run on every device. Return 1 on failure, else 0."""
    broken, missing, without = 0, "", list[str]()
    values = np.linspace(0.1, 3, 1001).astype(np.float32)

    def program(x: object) -> object:
        with override(immediate=0):  # (test compiled kernels even for few elements)
            return UFUNCS["exp"](x) * 2.0 + x

    for name in TARGETS:
        try:
            (kernel,) = compile(program, asarray(values, device="cpu"), target=name)
            if name == "host":
                note = f"{len(kernel.asm.splitlines())} lines of assembly"
            else:
                note = ", ".join(f"{k} {v}" for k, v in kernel.resources.items())
            print(f"ok    target {name:7} {note}")
        except MissingAssemblerError as error:
            missing = " ".join(str(error).split())
            without.append(name)
        except Exception as error:
            broken += 1
            print(f"FAIL  target {name:7} {type(error).__name__}: {error}")
    if missing:
        print(f"note  only PTX for the targets {', '.join(without)}: {missing}")
    found_cuda = probe()
    for name in ("cpu", *(f"cuda:{k}" for k in range(len(found_cuda.devices)) if found_cuda.status == "ok")):
        try:
            with use_device(name):
                found = np.asarray(program(asarray(values, device=name)))
            worst = float(np.abs(found - (np.exp(values) * 2 + values)).max())
            good = worst <= TOLERANCE
            broken += not good
            print(
                f"{'ok  ' if good else 'FAIL'}  device {name:7} largest difference from NumPy {worst:.2g} (limit {TOLERANCE})"
            )
        except Exception as error:
            broken += 1
            print(f"FAIL  device {name:7} {type(error).__name__}: {error}")
            for note in getattr(error, "__notes__", ()):
                print(f"                     {note}")
    if found_cuda.status != "ok":
        print(f"note  no GPU: {found_cuda.message}{'; ' + found_cuda.remedy if found_cuda.remedy else ''}")
    return int(broken > 0)
