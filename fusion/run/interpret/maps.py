"""Elementwise operations, which are computed over blocks that fit into the cache.

In: an elementwise value, and the values computed only for it. Out: a `Cluster` of calls to primitives on blocks of
arrays and registers. Invariant: in every block, a register is written before it is read. A register belongs to one
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.fusion.graph.expr import Expr, topological
from weft.fusion.run.primitives import primitive, substitute
from weft.runtime import BLOCK_BYTES, run_calls

if TYPE_CHECKING:
    from weft.fusion.run.interpret.frame import ValueFrame
    from weft.fusion.run.interpret.program import ValueStep

# Bytes of a block: a dozen registers stay in a core's L2 cache, and NumPy's loops release the GIL for long enough.
BLOCK = 1 << 18


class PrimitiveCall(NamedTuple):
    """A call of a primitive with registers and inputs as operands.

    Negative operands are registers (-1 is the first register), and other operands are inputs. The result is a register,
    or 0 for the array of the cluster.
    """

    call: Callable[..., Any]
    operands: tuple[int, ...]
    result: int
    dtype: np.dtype


class Cluster(NamedTuple):
    """Elementwise operations over one shape, in the order of execution.

    Attributes
    ----------
    operations : tuple of PrimitiveCall
    registers : int
    shape : tuple of int
    casts : tuple of (int, callable)
        Inputs of one element that operations take in another dtype, with the functions that convert them.
    """

    operations: tuple[PrimitiveCall, ...]
    registers: int
    shape: tuple[int, ...]
    casts: tuple[tuple[int, Callable[..., Any]], ...] = ()


def find_inlined(order: list[Expr], users: dict[Expr, list[Expr]], outputs: set[Expr]) -> set[Expr]:
    """Return the elementwise values that are used in only one cluster of elementwise values of the same shape.

    They are computed in this cluster block by block, without a separate array.
    """
    root: dict[Expr, Expr] = {}
    found: set[Expr] = set()
    for node in reversed(order):
        if node.kind != "map":
            continue
        root[node] = node
        if node not in outputs and users[node] and all(u.kind == "map" and u.shape == node.shape for u in users[node]):
            clusters = {root[u] for u in users[node]}
            if len(clusters) == 1:
                root[node] = clusters.pop()
                found.add(node)
    return found


def make_cluster(root: Expr, inside: set[Expr], any_bits: bool = False) -> tuple[list[Expr], Cluster]:
    """Return the cluster that computes `root`, preceded by the inputs of the cluster.

    With `any_bits`, ops that cannot be compiled are computed by NumPy.
    """
    inputs: dict[tuple[Expr, np.dtype], int] = {}

    def is_own(node: Expr) -> bool:
        return node is root or node in inside

    members = [node for node in topological([root], lambda node: not is_own(node)) if is_own(node)]
    last: dict[Expr, int] = {}
    for k, node in enumerate(members):
        for child in node.operands:
            last[child] = k
    build = _Builder(inputs, any_bits)
    for k, node in enumerate(members):
        typed = [build.typed(child, kind, inside) for child, kind in zip(node.operands, node.attrs, strict=True)]
        call = build.find(node.op, node.attrs, node.dtype)
        build.emit(node, call, typed, node is root)
        for child in set(node.operands):
            if child in inside and last[child] == k:
                build.release(child)
    casts = [(k, build.find("cast", (node.dtype,), kind)) for (node, kind), k in inputs.items() if node.dtype != kind]
    return [node for node, _ in inputs], Cluster(tuple(build.operations), build.registers, root.shape, tuple(casts))


class _Builder:
    """Builder of a cluster, which assigns values to registers and reuses a register after the last use of a value."""

    def __init__(self, inputs: dict[tuple[Expr, np.dtype], int], any_bits: bool) -> None:
        self.inputs = inputs
        self.any_bits = any_bits
        self.operations: list[PrimitiveCall] = []
        self.registers = 0
        self._free: list[int] = []
        self._register_of: dict[Expr, int] = {}
        self._casts: list[int] = []  # registers of operands that only the next operation uses

    def find(self, op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Callable[..., Any]:
        """Return the primitive for an op. With `any_bits`, return a substitute if the primitive cannot be compiled."""
        try:
            return primitive(op, loop, dtype)
        except Exception:
            if not self.any_bits:
                raise
            return substitute(op, loop, dtype)

    def typed(self, node: Expr, kind: np.dtype, inside: set[Expr]) -> int:
        """Return the register or input that holds a value in this dtype."""
        if node not in inside:
            own = kind if node.size == 1 else node.dtype
            slot = self.inputs.setdefault((node, own), len(self.inputs))
        else:
            own, slot = node.dtype, self._register_of[node]
        if own == kind:
            return slot
        register = self._take()
        self._casts.append(register)
        self.operations.append(PrimitiveCall(self.find("cast", (node.dtype,), kind), (slot,), register, kind))
        return register

    def emit(self, node: Expr, call: Callable[..., Any], operands: list[int], last: bool) -> None:
        """Append a call to a primitive."""
        result = 0 if last else self._take()
        self._register_of[node] = result
        self.operations.append(PrimitiveCall(call, tuple(operands), result, node.dtype))
        self._free += self._casts
        self._casts.clear()

    def release(self, node: Expr) -> None:
        """Release the register of a value that has no further uses."""
        self._free.append(self._register_of[node])

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        self.registers += 1
        return -self.registers


# -- running ------------------------------------------------------------------------------------


def run_cluster(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Compute an elementwise value block by block."""
    cluster: Cluster = step.detail
    out = frame.new(step.node)
    if not out.size:
        return out
    arrays = [values[k] for k in step.operands]
    for slot, cast in cluster.casts:
        arrays[slot] = np.asarray(cast(arrays[slot].reshape(())))
    shape = cluster.shape
    if all(a.size == 1 or (a.shape == shape and a.flags.c_contiguous) for a in arrays):
        arrays = [a.reshape(-1) if a.size > 1 else a.reshape(()) for a in arrays]
        flat = out.reshape(-1)
    else:
        arrays = [
            a.reshape(()) if a.size == 1 else a if a.shape == shape else np.broadcast_to(a, shape) for a in arrays
        ]
        flat = out
    length = BLOCK // max(operation.dtype.itemsize for operation in cluster.operations)
    if not cluster.registers:
        length = max(length, -(-out.size // frame.threads))  # (only the result has to stay in the cache)
    pieces: list[Any] = list(_blocks(flat.shape, length))
    threads = min(frame.threads, out.nbytes // (2 * BLOCK_BYTES))  # (less work ends before other threads wake up)
    if threads < 2 or len(pieces) < 2:
        _run_blocks(frame.device, cluster, arrays, flat, pieces, length)
        return out
    share = -(-len(pieces) // (2 * threads))
    parts = [pieces[k : k + share] for k in range(0, len(pieces), share)]
    calls = [partial(_run_blocks, frame.device, cluster, arrays, flat, part, length) for part in parts]
    run_calls(calls, threads)
    return out


def _blocks(shape: tuple[int, ...], most: int) -> Iterator[Any]:
    """Yield an index for each block of at most `most` elements.

    A block consists of whole inner axes and a range of the next axis.
    """
    if prod(shape) <= most:
        yield ...
        return
    axis = len(shape) - 1
    while axis > 0 and prod(shape[axis:]) <= most:
        axis -= 1
    length = max(1, most // prod(shape[axis + 1 :]))
    for outer in np.ndindex(*shape[:axis]):
        for k in range(0, shape[axis], length):
            yield (*outer, slice(k, k + length))


def _run_blocks(
    device: Any, cluster: Cluster, arrays: list[Any], out: np.ndarray, pieces: list[Any], length: int
) -> None:
    # (device memory stays mapped, but memory of new arrays would be mapped again each time)
    size = min(out.size, length) * max(operation.dtype.itemsize for operation in cluster.operations)
    buffer = device.allocate(size * cluster.registers) if cluster.registers else None
    memory: Any = (
        device.view_memory(buffer, np.dtype(np.uint8), (cluster.registers, size)) if buffer is not None else ()
    )
    with np.errstate(all="ignore"):
        for piece in pieces:
            target = out[piece]
            blocks = [a[piece] if a.ndim else a for a in arrays]
            registers: dict[int, Any] = {}
            size, shape = target.size, target.shape
            for operation in cluster.operations:
                operands = [blocks[k] if k >= 0 else registers[k] for k in operation.operands]
                if not operation.result:
                    operation.call(*operands, out=target)
                    continue
                kind = operation.dtype
                register = memory[-operation.result - 1, : size * kind.itemsize].view(kind).reshape(shape)
                registers[operation.result] = operation.call(*operands, out=register)
