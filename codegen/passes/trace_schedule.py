"""Instrumentation of fused kernels.

A `trace` precedes each access to global or shared memory, and each synchronization. In: a kernel after `map_axes`, with
all ops expanded. Out: the kernel with the attributes ``trace`` (number of words of an event) and ``traced`` (a
`TraceSite` for each site, as a plain tuple). Invariant: the first of several accesses that a GPU executes as one has
the alignment of the whole access.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import SYNCHRONIZATION, Kernel, Operation, Pointer, Value
from weft.codegen.kernel_ir.text import print_operations
from weft.codegen.passes.rewrite import Replaced, Rewriter

_ACCESSES = {"load": "read", "store": "write", "atomic": "atomic", "atomic_cas": "atomic"}
_SYNCHRONIZATION = {
    "barrier": "barrier",
    "barrier_vote": "barrier",
    "grid_barrier": "grid",
    "active_mask": "warp",
    "shuffle_xor": "warp",
    "fence": "fence",
}


class TraceSite(NamedTuple):
    """An instrumented operation of the kernel.

    `kind`: read, write, atomic, barrier, grid, warp_barrier, warp, fence or block_fence; `text`: the printed operation;
    `array`, `space`, `size`, `align`: the accessed array, its address space, and the size and alignment of the access;
    `numbers`: number of index values in an event; `valued`: whether the written value follows them; `compares`: whether
    the access is a compare-and-swap.
    """

    kind: str
    text: str
    array: str = ""
    space: str = ""
    size: int = 0
    align: int = 1
    numbers: int = 0
    valued: bool = False
    compares: bool = False


def trace_schedule(kernel: Kernel) -> Kernel:
    """Return the instrumented kernel."""
    tracer = _Tracer(kernel)
    traced = tracer.run()
    width = 3 + max((site.numbers + site.valued for site in tracer.sites), default=0)
    traced.attributes |= {"trace": width, "traced": tuple(tuple(site) for site in tracer.sites)}
    return traced


class _Tracer(Rewriter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, self.trace)
        self.texts = print_operations(kernel)
        self.sites: list[TraceSite] = []
        # pointer that an `offset` computed -> the array that it points into
        self.arrays = {o.results[0]: o.operands[0] for o in kernel.walk() if o.opcode == "offset"}

    def trace(self, builder: KernelBuilder, operation: Operation, operands: list[Replaced]) -> None:
        """Emit the `trace` operations for an operation that is about to be copied."""
        if operation.opcode in _ACCESSES:
            if operation.attributes.get("order", "monotonic") != "monotonic":  # which includes a fence
                self.event(builder, TraceSite("fence", self.texts[operation]))
            self.access(builder, operation)
        elif operation.opcode in _SYNCHRONIZATION:
            kind = "block_fence" if operation.attributes.get("scope") == "block" else _SYNCHRONIZATION[operation.opcode]
            self.event(builder, TraceSite(kind, self.texts[operation]))
        elif operation.opcode in SYNCHRONIZATION:
            mask = builder.cast(operation.operands[0], builder.kernel.index_dtype)
            kind = "warp_barrier" if operation.opcode == "warp_barrier" else "warp"
            self.event(builder, TraceSite(kind, self.texts[operation], numbers=1), mask)

    def event(self, builder: KernelBuilder, site: TraceSite, *operands: Value) -> None:
        """Emit a `trace` operation, which records an event when the kernel runs. Add `site`, a description of the traced operation, to `self.sites`."""
        self.sites.append(site)
        builder.emit("trace", operands, (np.dtype(bool),), site=len(self.sites) - 1, align=site.align)

    def array(self, pointer: Value) -> Value:
        """Return the parameter, or the shared array, that a pointer points into."""
        while pointer in self.arrays:
            pointer = self.arrays[pointer]
        return pointer

    def access(self, builder: KernelBuilder, operation: Operation) -> None:
        pointer, index = operation.operands[:2]
        assert isinstance(pointer.type, Pointer)
        dtype, space = pointer.type.dtype, pointer.type.space
        if space not in ("global", "shared"):
            return
        volatile = operation.attributes.get("volatile")
        written = (
            operation.operands[2:] if operation.opcode == "store" and dtype.kind in "biuf" and not volatile else ()
        )
        address = builder.emit("offset", (pointer, index), (pointer.type,))[0]
        # a volatile access communicates with other threads, and is indivisible
        kind = "atomic" if volatile else _ACCESSES[operation.opcode]
        site = TraceSite(
            kind,
            self.texts[operation],
            self.array(operation.operands[0]).name,
            space,
            dtype.itemsize,
            operation.attributes.get("align", min(dtype.itemsize, 8)),
            1,
            bool(written),
            operation.opcode == "atomic_cas",
        )
        self.event(builder, site, address, index, *written)
