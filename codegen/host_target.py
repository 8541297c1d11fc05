"""Lookup of targets by name, and the target of this machine's CPU."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from glob import glob

from weft.codegen.host_description import describe_host, is_host_described, linux_features
from weft.codegen.target import Target, cuda_target, newest_architecture
from weft.runtime import CompileError, thread_count

# Architecture whose schedules the `simt` device runs by default.
SIMT_ARCHITECTURE = "sm_90"


def host_target() -> Target:
    """Return the target of this machine's CPU, with the thread count from the settings."""
    return _make(*describe_host(), thread_count())


def resolve_target(name: str, newest_ptx: int | None = None) -> Target:
    """Return the target of a name such as "host", "sm_90" or "simt:sm_90".

    "cpu" is the host. "simt:sm_90" runs the schedules of that GPU on the host. A suffix "backward" or "sanitized" after
    a second colon selects how threads run.

    If `newest_ptx` is given (as LLVM counts PTX versions), a GPU's architecture may be unknown. The target is then the
    newest known architecture whose code the GPU can run, and whose PTX the driver can read.
    """
    device, _, rest = name.partition(":")
    if name in ("host", "cpu"):
        target = host_target()
    elif device == "simt":
        architecture, _, way = rest.partition(":")
        if way not in ("", "backward", "sanitized"):
            raise CompileError(f"threads run backward or sanitized, not {way!r}")
        schedule = cuda_target(architecture or SIMT_ARCHITECTURE)
        called = ":".join(part for part in ("simt", schedule.name, way) if part)
        target = replace(
            host_target(), name=called, schedule=schedule, backward=way == "backward", sanitized=way == "sanitized"
        )
    else:
        target = cuda_target(name if newest_ptx is None else newest_architecture(name, newest_ptx))
    return target


def order_target() -> Target:
    """Return a target whose kernels sum in the same order as those of `host_target`.

    LLVM is not loaded if its description of the CPU is cached, or if Linux lists the features of the CPU. Without a
    cached description, the target is made from this list, and no code is generated for it.
    """
    features = linux_features()
    if is_host_described() or not features:
        return host_target()
    return _make("x86_64-unknown-linux-gnu", "", features, thread_count())


@lru_cache(maxsize=8)
def _make(triple: str, arch: str, features: str, threads: int) -> Target:
    known = {name[1:] for name in features.split(",") if name.startswith("+")}
    vector = 64 if {"avx512f", "avx512vl", "avx512dq"} <= known else 32 if "avx2" in known else 16
    return Target("host", "cpu", triple, arch, features, vector, threads)


def streaming_threshold(target: Target) -> int:
    """Return how many bytes a kernel must access before prefetches and non-temporal stores pay off.

    Return 0 if kernels should never use them. Only x86-64 qualifies. There, other threads see non-temporal stores after
    a fence. Non-temporal stores are slower if the memory fits into the last-level cache, even if just barely: with
    normal stores, two arrays of 8 MB were concatenated in 0.25 ms instead of 0.60 ms on a machine with 32 MiB of cache.
    """
    if target.kind != "cpu" or target.schedule is not None or not target.triple.startswith("x86_64"):
        return 0
    return _last_cache()


@lru_cache(maxsize=1)
def _last_cache() -> int:
    """Return the size of this machine's last-level cache in bytes, or 0 if it is unknown."""
    sizes = [0]
    for path in glob("/sys/devices/system/cpu/cpu0/cache/index*/size"):
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue
        number = text.rstrip("KMG")
        if number.isdigit():
            sizes.append(int(number) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0))
    return max(sizes)
