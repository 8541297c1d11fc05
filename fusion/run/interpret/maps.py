"""Interpretation of elementwise operations, block by block.

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
from weft.fusion.run.expanded_ops import ExpandedOp
from weft.fusion.run.primitives import primitive, substitute
from weft.runtime import BLOCK_BYTES, run_calls

if TYPE_CHECKING:
    from weft.fusion.run.interpret.frame import ValueFrame
    from weft.fusion.run.interpret.program import ValueStep

# Bytes of a block: with smaller blocks, threads wait for the GIL (between NumPy's loops, which release it) for longer
# than the loops take.
BLOCK = 1 << 20
TARGET = -1  # the register whose memory is the array of the cluster


class PrimitiveCall(NamedTuple):
    """A call of a primitive on registers (temporary blocks) and input arrays.

    Negative operands are registers, and other operands are inputs. The result is a register. It may also be an operand
    of the same item size.
    """

    call: Callable[..., Any]
    operands: tuple[int, ...]
    result: int
    dtype: np.dtype


class Cluster(NamedTuple):
    """Elementwise operations on arrays of one shape, which are executed block by block."""

    operations: tuple[PrimitiveCall, ...]
    registers: int  # number of registers besides `TARGET`
    shape: tuple[int, ...]
    # inputs of one element that operations take in another dtype, with the functions that convert them
    casts: tuple[tuple[int, Callable[..., Any]], ...] = ()


def find_inlined(order: list[Expr], users: dict[Expr, list[Expr]], outputs: set[Expr]) -> set[Expr]:
    """Return the elementwise values that need no separate array, because one cluster computes and uses them.

    The users of such a value have the same shape as the value. Outputs are not included.
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
    """Return the inputs and the elementwise operations of the cluster that computes `root`.

    With `any_bits`, ops that need code that cannot be compiled are computed by their reference functions.
    """

    def is_own(node: Expr) -> bool:
        return node is root or node in inside

    members = [node for node in topological([root], lambda node: not is_own(node)) if is_own(node)]
    last: dict[Expr, int] = {}
    for k, node in enumerate(members):
        for child in node.operands:
            last[child] = k
    build = _Builder(root.dtype.itemsize, any_bits)
    for k, node in enumerate(members):
        typed = [build.typed(child, kind, inside) for child, kind in zip(node.operands, node.attrs, strict=True)]
        call = build.find(node.op, node.attrs, node.dtype)
        ended = {child for child in node.operands if child in inside and last[child] == k}
        build.emit(node, call, typed, ended, node is root)
    inputs = build.inputs
    casts = [(k, build.find("cast", (node.dtype,), kind)) for (node, kind), k in inputs.items() if node.dtype != kind]
    return [node for node, _ in inputs], Cluster(tuple(build.operations), build.registers, root.shape, tuple(casts))


class _Builder:
    """Builder of a `Cluster`, a list of elementwise operations. The builder assigns each value to a register, a temporary block of elements.

    `itemsize` is that of the cluster's array. `TARGET` holds only values of this size.
    """

    def __init__(self, itemsize: int, any_bits: bool) -> None:
        self.inputs: dict[tuple[Expr, np.dtype], int] = {}
        self.itemsize = itemsize
        self.any_bits = any_bits
        self.operations: list[PrimitiveCall] = []
        self.registers = 0
        self._free = [TARGET]
        self._register_of: dict[Expr, int] = {}
        # registers and item sizes of operands that only the next operation uses
        self._casts: list[tuple[int, int]] = []

    def find(self, op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Callable[..., Any]:
        """Return the primitive that computes an op.

        If the op needs code that cannot be compiled, return the op's reference function with `any_bits`, and raise
        otherwise.
        """
        try:
            return primitive(op, loop, dtype)
        except Exception:
            if not self.any_bits:
                raise
            return substitute(op, loop, dtype)

    def typed(self, node: Expr, kind: np.dtype, inside: set[Expr]) -> int:
        """Provide the value of `node` in dtype `kind`, and append a cast if necessary. Return the index of the register or input with the value."""
        if node not in inside:
            own = kind if node.size == 1 else node.dtype
            slot = self.inputs.setdefault((node, own), len(self.inputs))
        else:
            own, slot = node.dtype, self._register_of[node]
        if own == kind:
            return slot
        register = self._take(kind.itemsize)
        self._casts.append((register, kind.itemsize))
        self.operations.append(PrimitiveCall(self.find("cast", (node.dtype,), kind), (slot,), register, kind))
        return register

    def emit(self, node: Expr, call: Callable[..., Any], operands: list[int], ended: set[Expr], last: bool) -> None:
        """Append a call of a primitive. Free the registers of cast operands, and of the values in `ended`, which no later call uses."""
        size = node.dtype.itemsize
        released = self._casts + [(self._register_of[child], child.dtype.itemsize) for child in ended]
        same = [register for register, itemsize in released if itemsize == size]
        result = TARGET if last else same[0] if same else self._take(size)
        self._register_of[node] = result
        self.operations.append(PrimitiveCall(call, tuple(operands), result, node.dtype))
        self._free += [register for register, _ in released if register != result]
        self._casts = []

    def _take(self, itemsize: int) -> int:
        for register in self._free:
            if register != TARGET or itemsize == self.itemsize:
                self._free.remove(register)
                return register
        self.registers += 1
        return TARGET - self.registers


# -- running ------------------------------------------------------------------------------------


def run_cluster(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Execute the elementwise operations of a `Cluster` block by block, and return the resulting array."""
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
    count = len(cluster.operations)
    # (less work ends before threads wake up, and calls for less memory take less time than waiting for the GIL)
    threads = min(frame.threads, out.nbytes // BLOCK_BYTES, count * out.nbytes // (2 * BLOCK_BYTES))
    blocks = 1
    # (an expansion consists of several operations on arrays of its own)
    if count > 1 or isinstance(cluster.operations[0].call, ExpandedOp):
        blocks = -(-out.size * max(operation.dtype.itemsize for operation in cluster.operations) // BLOCK)
    length = -(-out.size // (-(-blocks // max(1, threads)) * max(1, threads)))
    pieces: list[Any] = list(_blocks(flat.shape, length))
    if threads < 2 or len(pieces) < 2:
        _run_blocks(frame.device, cluster, arrays, flat, pieces, length)
        return out
    share = -(-len(pieces) // (2 * threads))
    parts = [pieces[k : k + share] for k in range(0, len(pieces), share)]
    calls = [partial(_run_blocks, frame.device, cluster, arrays, flat, part, length) for part in parts]
    run_calls(calls, threads)
    return out


def _blocks(shape: tuple[int, ...], most: int) -> Iterator[Any]:
    """Yield an index for each block of an array, with at most `most` elements per block.

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
    shape: Any = None
    with np.errstate(all="ignore"):
        for piece in pieces:
            target = out[piece]
            if target.shape != shape:
                shape = target.shape
                registers = [
                    None
                    if result == TARGET
                    else memory[TARGET - result - 1, : target.size * kind.itemsize].view(kind).reshape(shape)
                    for _, _, result, kind in cluster.operations
                ]
            values = [a[piece] if a.ndim else a for a in arrays] + [None] * (cluster.registers + 1)
            for (call, operands, result, kind), register in zip(cluster.operations, registers, strict=True):
                into = target.view(kind) if register is None else register
                values[result] = call(*[values[k] for k in operands], out=into)
