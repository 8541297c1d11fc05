"""LLVM's description of this machine's CPU.

The description is cached on disk under the operating system's description of the CPU. A process whose kernels are all
cached therefore does not load LLVM.
"""

from __future__ import annotations

import platform
from functools import lru_cache
from importlib import import_module

from weft.codegen.cpu_features import has_masks
from weft.runtime import ObjectCode, disk_cache, key_material, load_llvm

_CPU_LINES = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
_described: list[ObjectCode] = []  # LLVM's description of this machine, once it is known


def is_host_described() -> bool:
    """Return whether LLVM's description of this machine is cached. If it is not, the disk cache has no code for this machine."""
    return _known() is not None


def describe_host() -> tuple[str, str, str]:
    """Return LLVM's target triple, CPU name and CPU features of this machine."""
    found = _known()
    if found is None:
        cpu, cache = _system_description(), disk_cache()
        load_llvm()
        triple, arch, features = import_module("weft.codegen.llvm.host").describe_host()
        found = ObjectCode("facts", "", b"", "host", (), (), {"triple": triple, "arch": arch, "features": features})
        if cpu and cache is not None:
            cache.put(key_material("the host's CPU", cpu), found)
        _described.append(found)
    return found.launch["triple"], found.launch["arch"], found.launch["features"]


def _known() -> ObjectCode | None:
    """Return LLVM's description of this machine from memory or the disk cache, or None if neither has it."""
    if not _described:
        cpu, cache = _system_description(), disk_cache()
        found = cache.get(key_material("the host's CPU", cpu)) if cpu and cache is not None else None
        if found is not None:
            _described.append(found)
    return _described[0] if _described else None


@lru_cache(maxsize=1)
def _system_description() -> str:
    """Return the description of the first processor in ``/proc/cpuinfo``, or "" if a needed line is missing."""
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read().split("\n\n")[0]
    except OSError:
        return ""
    lines = [line for line in first.splitlines() if line.split("\t")[0].strip(" :") in _CPU_LINES]
    return "\n".join([platform.machine(), *lines]) if len(lines) == len(_CPU_LINES) else ""


def linux_features() -> str:
    """Return the CPU features that Linux lists, written as LLVM writes them, such as "+avx2,+fma". Return "" if they are unknown."""
    return ",".join([f"+{name}" for name in _system_description().partition("\nflags")[2].split()])


@lru_cache(maxsize=1)
def host_has_masks() -> bool:
    """Return whether this machine's CPU accesses vectors under a mask as fast as without a mask."""
    features = "" if is_host_described() else linux_features()
    return has_masks(features or describe_host()[2])
