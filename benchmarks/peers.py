"""Who takes part: weft and its peers, each with its own arrays and its own way to a finished result.

In: a program and NumPy inputs. Out: a call without arguments that returns when its results are there. A peer is loaded
when it is asked for, after `limit_threads`, since most read how many threads they may use once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import weft as wf
from benchmarks.programs import Arrays, Program, listed, numexpr_forms

Call = Callable[[], Any]


@dataclass(frozen=True)
class Peer:
    """One who takes part: its name, the module it needs, how it makes a call, and how results come to NumPy."""

    name: str
    module: str
    prepare: Callable[[Program, Arrays], Call]


def limit_threads(count: int) -> None:
    """Let this process use `count` threads, whoever asks. Before any peer is loaded."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:count])
    for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "WEFT"):
        os.environ[f"{name}_NUM_THREADS"] = str(count)
    os.environ["NUMEXPR_MAX_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(count)


def with_weft(program: Program, inputs: Arrays) -> Call:
    """Recorded and evaluated anew in each call."""
    arrays = [wf.asarray(x) for x in inputs]
    run = program.forms.get("weft", program.run)

    def call() -> Any:
        results = listed(run(wf, *arrays))
        wf.evaluate(*results)
        return results

    return call


def with_numpy(program: Program, inputs: Arrays) -> Call:
    """As it is written."""
    run = program.forms.get("numpy", program.run)
    return lambda: run(np, *inputs)


def with_numexpr(program: Program, inputs: Arrays) -> Call:
    """By text; a few programs take several."""
    import numexpr

    form = getattr(numexpr_forms(numexpr.evaluate), program.run.__name__)
    return lambda: form(*inputs)


def with_numba(program: Program, inputs: Arrays) -> Call:
    """Loops over `prange`."""
    from benchmarks import loops

    form = getattr(loops, program.run.__name__)
    return lambda: form(*inputs)


def with_jax(program: Program, inputs: Arrays) -> Call:
    """Under `jit`, 64-bit types allowed."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    run = program.forms.get("jax", program.run)
    arrays = [jax.device_put(x) for x in inputs]
    compiled = jax.jit(lambda *values: run(jax.numpy, *values))
    return lambda: jax.block_until_ready(compiled(*arrays))


def with_torch(program: Program, inputs: Arrays) -> Call:
    """`torch.compile` for these shapes."""
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
WEFT = Peer("weft", "weft", with_weft)


def installed() -> tuple[Peer, ...]:
    """The peers that this Python has."""
    return tuple(peer for peer in PEERS if find_spec(peer.module) is not None)


def as_numpy(result: Any) -> list[np.ndarray]:
    """Whoever's results as NumPy arrays."""
    return [np.asarray(x) for x in listed(result)]
