"""Weft and its *peers* on the CPU: the libraries that weft is compared with.

Each library has a function that prepares a program: given the program and NumPy inputs, it returns a function without
arguments that runs the program and waits for the results. Peers other than NumPy are imported only when they are used,
after `limit_threads`, since most libraries read the number of threads only once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

import weft as wf
from benchmarks.programs import Arrays, Program, listed, numexpr_forms

Call = Callable[[], Any]
COPIED_ON_DEVICE = 1 << 29  # bytes: more than a GPU's caches hold


@dataclass(frozen=True)
class Peer:
    """A library to compare with weft, or weft itself.

    A peer has a name, a module that must be installed ("" for none), and a function that prepares a program. The
    prepared program is a function without arguments, of type `Call`.
    """

    name: str
    module: str
    prepare: Callable[[Program, Arrays], Call]
    timer: Callable[[], Timer] | None = None  # creates a timer that uses the GPU's clock


class Timer(Protocol):
    """A timer of work in a GPU stream."""

    def start(self) -> None:
        """Record the start of the work."""
        ...

    def stop(self) -> float:
        """Record the end of the work, wait until the work is complete, and return its time in milliseconds."""
        ...


def limit_threads(count: int) -> None:
    """Limit this process and its libraries to `count` threads.

    Call this function before a peer is imported.
    """
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:count])
    for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "WEFT"):
        os.environ[f"{name}_NUM_THREADS"] = str(count)
    os.environ["NUMEXPR_MAX_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(count)


def with_weft(program: Program, inputs: Arrays) -> Call:
    """Return a function that records and evaluates the program on weft."""
    arrays = [wf.asarray(x) for x in inputs]
    home = wf.default_device()
    run = program.forms.get("weft", program.run)

    def call() -> Any:
        results = listed(run(wf, *arrays))
        wf.evaluate(*results)
        home.synchronize()
        return results

    return call


def with_numpy(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program with NumPy."""
    run = program.forms.get("numpy", program.run)
    return lambda: run(np, *inputs)


def with_numexpr(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program with numexpr, in one or more expressions."""
    import numexpr

    form = getattr(numexpr_forms(numexpr.evaluate), program.run.__name__)
    return lambda: form(*inputs)


def with_numba(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program with Numba.

    It runs the program's version for Numba, or without such a version the loops of `benchmarks.loops`.
    """
    from benchmarks import loops

    written = program.forms.get("numba")
    form = partial(written, None) if written else getattr(loops, program.run.__name__)
    return lambda: form(*inputs)


def with_jax(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program under `jax.jit` on the CPU, with 64-bit types."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    run = program.forms.get("jax", program.run)
    arrays = [jax.device_put(x) for x in inputs]
    compiled = jax.jit(lambda *values: run(jax.numpy, *values))
    return lambda: jax.block_until_ready(compiled(*arrays))


def with_torch(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program under `torch.compile`, specialized for the shapes."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 0)) or os.cpu_count() or 1)
    run = program.forms.get("torch", program.run)
    arrays = [torch.from_numpy(x) for x in inputs]
    compiled = torch.compile(lambda *values: run(torch, *values), dynamic=False)

    def call() -> Any:
        with torch.no_grad():
            return compiled(*arrays)

    return call


PEERS = (
    Peer("NumPy", "numpy", with_numpy),
    Peer("numexpr", "numexpr", with_numexpr),
    Peer("Numba", "numba", with_numba),
    Peer("JAX", "jax", with_jax),
    Peer("torch.compile", "torch", with_torch),
)


class WeftTimer:
    """A timer of GPU work that uses the events of weft's default device."""

    def __init__(self) -> None:
        device = wf.default_device()
        self._before, self._after = device.create_event(), device.create_event()

    def start(self) -> None:
        """Record the start of the work."""
        self._before.record()

    def stop(self) -> float:
        """Record the end of the work, wait until the work is complete, and return its time in milliseconds."""
        self._after.record()
        self._after.synchronize()
        return self._after.elapsed(self._before)


WEFT = Peer("weft", "weft", with_weft, WeftTimer)


def installed(device: str = "cpu") -> tuple[Peer, ...]:
    """Return the installed peers for a device."""
    known = PEERS
    if device.startswith("cuda"):
        from benchmarks import gpu_peers

        known = gpu_peers.peers()
    return tuple(peer for peer in known if not peer.module or find_spec(peer.module) is not None)


def device_copy() -> tuple[Call, int] | None:
    """Return a function that copies memory on the GPU, and the number of bytes copied.

    Return None if weft's default device is not a GPU.
    """
    device = wf.default_device()
    if not device.name.startswith("cuda"):
        return None
    source, target = device.allocate(COPIED_ON_DEVICE), device.allocate(COPIED_ON_DEVICE)

    def copy() -> None:
        device.copy(source, target, COPIED_ON_DEVICE)
        device.synchronize()

    return copy, COPIED_ON_DEVICE


def as_numpy(result: Any) -> list[np.ndarray]:
    """Return a peer's results as NumPy arrays."""
    return [_from_device(x) for x in listed(result)]


def _from_device(value: Any) -> np.ndarray:
    for name in ("get", "cpu"):  # CuPy's and PyTorch's
        if hasattr(value, name) and hasattr(value, "__cuda_array_interface__"):
            value = getattr(value, name)()
    return np.asarray(value)
