"""The GPU libraries (*peers*) with which the benchmarks compare weft.

Each peer has its own arrays, and its own way to wait for a result. Inputs and outputs are as in `benchmarks.peers`.
Libraries that can time GPU work also provide a timer.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.peers import Call, Peer, with_numpy
from benchmarks.programs import Arrays, Program


def with_cupy(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program with CuPy, in one kernel per operation."""
    import cupy

    run = program.forms.get("cupy", program.run)
    arrays = [cupy.asarray(x) for x in inputs]

    def call() -> Any:
        result = run(cupy, *arrays)
        cupy.cuda.get_current_stream().synchronize()
        return result

    return call


def with_cupy_fuse(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program under `cupy.fuse`.

    `cupy.fuse` fuses elementwise operations, and reductions with the operations that compute their operands.
    """
    import cupy

    run = program.forms.get("cupy", program.run)
    arrays = [cupy.asarray(x) for x in inputs]
    names = ", ".join(f"a{k}" for k in range(len(arrays)))
    # CuPy asks for the names of the parameters, so *args would not work.
    fused = cupy.fuse()(eval(f"lambda {names}: run(cupy, {names})", {"run": run, "cupy": cupy}))

    def call() -> Any:
        result = fused(*arrays)
        cupy.cuda.get_current_stream().synchronize()
        return result

    return call


class CupyTimer:
    """A timer of GPU work that uses CuPy's events."""

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._before, self._after = cupy.cuda.Event(), cupy.cuda.Event()

    def start(self) -> None:
        """Record the start of the work."""
        self._before.record()

    def stop(self) -> float:
        """Stop the timer, and wait until the work is done. Return the duration of the work in milliseconds."""
        self._after.record()
        self._after.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(self._before, self._after))


def with_jax(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program under `jax.jit` on the first GPU.

    64-bit types are enabled. Raises an error if JAX does not support CUDA.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # otherwise JAX reserves most of the memory
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "float32")  # as in the other libraries
    device = jax.devices("gpu")[0]
    run = program.forms.get("jax", program.run)
    arrays = [jax.device_put(x, device) for x in inputs]
    compiled = jax.jit(lambda *values: run(jax.numpy, *values))
    return lambda: jax.block_until_ready(compiled(*arrays))


def _with_torch(program: Program, inputs: Arrays, compiled: bool) -> Call:
    import torch

    run = program.forms.get("torch", program.run)
    arrays = [torch.from_numpy(x).cuda() for x in inputs]

    def plain(*values: Any) -> Any:
        return run(torch, *values)

    function = torch.compile(plain, dynamic=False) if compiled else plain

    def call() -> Any:
        with torch.no_grad():
            result = function(*arrays)
        torch.cuda.synchronize()
        return result

    return call


def with_torch(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program with PyTorch, in one kernel per operation."""
    return _with_torch(program, inputs, compiled=False)


def with_torch_compile(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program under `torch.compile`, specialized for the shapes."""
    return _with_torch(program, inputs, compiled=True)


class TorchTimer:
    """A timer of GPU work that uses PyTorch's events."""

    def __init__(self) -> None:
        import torch

        self._before = torch.cuda.Event(enable_timing=True)
        self._after = torch.cuda.Event(enable_timing=True)

    def start(self) -> None:
        """Record the start of the work."""
        self._before.record()

    def stop(self) -> float:
        """Stop the timer, and wait until the work is done. Return the duration of the work in milliseconds."""
        self._after.record()
        self._after.synchronize()
        return float(self._before.elapsed_time(self._after))


def with_cuda_cpp(program: Program, inputs: Arrays) -> Call:
    """Return a function that runs the program's hand-written CUDA C++ version."""
    from benchmarks import cuda_cpp

    return cuda_cpp.prepare(program.run.__name__, inputs)


def peers() -> tuple[Peer, ...]:
    """Return the libraries to compare with weft on a GPU. The caller must check which of them are installed.

    CUDA C++ is included only if nvcc can build its programs.
    """
    from benchmarks import cuda_cpp

    return tuple(peer for peer in PEERS if peer.module or cuda_cpp.is_there())


PEERS = (
    Peer("CuPy", "cupy", with_cupy, CupyTimer),
    Peer("cupy.fuse", "cupy", with_cupy_fuse, CupyTimer),
    Peer("JAX", "jax", with_jax),
    Peer("torch", "torch", with_torch, TorchTimer),
    Peer("CUDA C++", "", with_cuda_cpp),
    Peer("NumPy", "numpy", with_numpy),
    # Last, because it takes longest, and is left out if time is short.
    Peer("torch.compile", "torch", with_torch_compile, TorchTimer),
)
