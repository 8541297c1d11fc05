"""Kernel IR: the typed and structured operations of a kernel.

In: operations appended by `KernelBuilder`. Out: the IR that passes rewrite and emitters lower.
Invariant: every `Value` is defined before its use, in its own block or an enclosing one. An operation's fields
declare all its operands, results and regions, so that a generic traversal reaches everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Space = Literal["global", "shared", "local", "constant", "parameter"]
Role = Literal["parallel", "reduce", "scan", "serial"]
Level = Literal["logical", "threaded"]


@dataclass(frozen=True, slots=True)
class Pointer:
    """The type of a pointer to elements of `dtype` in an address space."""

    dtype: np.dtype
    space: Space = "global"


Type = np.dtype | Pointer


@dataclass(slots=True, eq=False, repr=False)
class Value:
    """A typed value of kernel IR: a parameter, or the result of an operation.

    `name` is unique in its kernel. The text form prints the names of the kernel's parameters, and numbers other values.
    """

    name: str
    type: Type

    @property
    def dtype(self) -> np.dtype:
        """The dtype of a value that is not a pointer."""
        assert isinstance(self.type, np.dtype)
        return self.type

    @property
    def element(self) -> np.dtype:
        """The dtype of the elements that a pointer points to."""
        assert isinstance(self.type, Pointer)
        return self.type.dtype

    def __repr__(self) -> str:
        return f"%{self.name}"


@dataclass(slots=True, eq=False, repr=False)
class Block:
    """A sequence of operations, with the parameters that the operations may use.

    The regions of an operation are blocks.
    """

    parameters: tuple[Value, ...] = ()
    operations: list[Operation] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Operation:
    """An operation of kernel IR, such as a load, a loop or an addition."""

    opcode: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: tuple[Block, ...] = ()


@dataclass(slots=True)
class Parameter:
    """A kernel parameter: a scalar, an array by value, or a pointer.

    A launch passes a buffer and an offset for a pointer. `writable`: the kernel stores through it. `noalias`: no other
    memory that the kernel accesses overlaps it. `align`: the known alignment of the address in bytes. `by_value`: if
    not 0, the launch copies this many bytes into the kernel's parameters, and the pointer points to them.
    """

    value: Value
    writable: bool = False
    noalias: bool = False
    align: int = 1
    by_value: int = 0

    @property
    def kind(self) -> str:
        """Return "pointer" for a pointer, "value N" for N bytes passed by value, or the name of a scalar's dtype."""
        if self.by_value:
            return f"value {self.by_value}"
        return "pointer" if isinstance(self.value.type, Pointer) else self.value.type.name


@dataclass(slots=True)
class Function:
    """A function of a kernel, which ends in a `yield` of its results.

    It has no barriers or warp operations, and may call itself.
    """

    name: str
    parameters: tuple[Value, ...]
    body: Block
    results: tuple[Type, ...]


@dataclass(slots=True)
class Kernel:
    """A kernel in kernel IR, with its parameters and its body.

    `level` is "logical" or "threaded".

    `index_dtype` is int32 or int64: the dtype of loop indices, and of the indices of memory accesses.
    `attributes` is plain data (str, int, bool, tuples of them) except for ``schedule``. Those of explicit kernels:
    ``explicit`` (True), ``launch_bounds`` (threads per block, blocks per multiprocessor), ``max_registers``,
    ``line_info``, ``file``, ``trace``; an operation's attribute ``line`` is the user's line.
    ``arrays`` of an explicit kernel with atomics: a string for each array, with the name of the pointer, the bytes of
    an element, and the names of the parameters that hold the lengths of its axes. If the array is not C-contiguous, the
    unit of its strides in bytes and the names of the parameters that hold the strides follow.
    ``links``: digests of the code that it is linked with.
    ``register_aims`` of a fused kernel: limits on the registers per thread. The first without spills is used.
    ``schedule`` is how its work is divided among a GPU's threads (`schedules/decision.py`).
    ``in_step`` of a threaded kernel on the host: which threads run the iterations of its strided loops together, those
    of a "block" or of the "grid".
    With ``merged``, the operations after the body's first parallel loop run when the whole loop has finished.
    With ``device``, the name of one of `functions`, there is no kernel, only this function for other code to call.
    """

    name: str
    parameters: list[Parameter]
    body: Block
    index_dtype: np.dtype
    level: Level = "logical"
    attributes: dict[str, Any] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)

    def walk(self) -> Iterator[Operation]:
        """Yield all operations of the kernel in program order, including nested operations."""
        bodies = (self.body, *(function.body for function in self.functions))
        return program_order(operation for body in bodies for operation in body.operations)

    def constants(self) -> dict[Value, Any]:
        """Return the constants of the kernel with their values, which are NumPy scalars."""
        return {o.results[0]: o.attributes["value"] for o in self.walk() if o.opcode == "constant"}

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks of operations of the kernel, in no particular order."""
        yield self.body
        yield from (function.body for function in self.functions)
        yield from (region for operation in self.walk() for region in operation.regions)


def program_order(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations and their nested operations, outer operations before inner ones."""
    stack = [iter(operations)]
    while stack:
        operation = next(stack[-1], None)
        if operation is None:
            stack.pop()
            continue
        yield operation
        for region in reversed(operation.regions):
            stack.append(iter(region.operations))


# Operations outside the op table: name -> description. The set is closed: the verifier rejects any other opcode that is
# not in the op table.
STRUCTURAL: dict[str, str] = {
    "constant": "{value} -> a scalar of the result's dtype",
    "cast": "(x) -> x in the result's dtype (out-of-range float to int saturates, NaN gives 0)",
    "load": (
        "(pointer, index) -> the element at `index`, which counts elements. Attributes of loads and stores: `align` (in bytes; "
        "by default that of the element), `volatile`, and `hint` (a PTX cache operator: ca, cg, cs, lu, cv; wb, cg, cs, wt)"
    ),
    "store": "(pointer, index, value) stores an element",
    "for": (
        "(start, stop, *initial) {role, step=1, combine=()} region(index, *carried) -> *results. The index runs from start to "
        "stop (exclusive) in steps of `step`. The region ends with a `yield` of the next carried values. With `step_from`, the "
        "last operand is the step. With `rolled`, the loop is not unrolled. With `opaque`, a GPU computes addresses from the "
        "index in each iteration. With `lanes`, the body may run for this number of consecutive indices at once. Role reduce: "
        "carried values are combined by the ops in `combine`, in any order. With `across`, the lanes of a loop around it reduce "
        "their own elements in order. With `apart`, each iteration combines one element with the accumulators of one lane"
    ),
    "if": (
        "(condition) {likely} region, region -> *results. Both regions end with a `yield`. `likely`: whether the condition "
        "usually holds"
    ),
    "yield": "(*values) ends a region",
    "transposed": (
        "(pointer, index, stride, rows, columns) {size} -> a pointer to local memory, the same for each execution. Its "
        "element r * size + c is a copy of the element at index + r + c * stride. `rows` and `columns` are at most `size`"
    ),
    "fetch": (
        "(pointer, index) prefetches an element that a later iteration reads. It has no effect if the element does not exist"
    ),
    # threaded level
    "thread_index": "() {axis} -> index of the thread in its block",
    "block_index": "() {axis} -> index of the block in the grid",
    "block_size": "() {axis} -> number of threads of a block along the axis",
    "grid_size": "() {axis} -> number of blocks of the grid along the axis",
    "lane_index": "() -> index of the thread in its warp",
    "barrier": "() waits for all threads of the block",
    "shared": "() {count} -> a pointer to `count` elements that the threads of a block share",
    "local": (
        "() {count, align} -> a pointer to `count` elements of the thread's own memory, the same for each execution. Also "
        "allowed at the logical level, where each call to the host code has its own memory"
    ),
    "shuffle_xor": "(x) {mask} -> x of the lane whose number is the own lane number ^ mask (full warp)",
    "atomic": (
        "(pointer, index, value) {kind, scope=device, order=monotonic} -> the old element. The new element is the result of "
        "the op `kind`, or of subtract or exchange. Unsigned integers also support increment (old >= value: 0, otherwise "
        "old + 1) and decrement (old == 0 or old > value: value, otherwise old - 1). For global and shared memory, also at the "
        "logical level. Scope: block, device or system. With order acq_rel, a fence precedes it and another fence follows it"
    ),
    # threaded level, control flow written by the user
    "scope": "() {label} region. A `leave` with this label, anywhere inside, continues after the scope",
    "repeat": (
        "() {most=0} region, which is repeated until a `leave` exits it, at most `most` times if `most` is not 0. With "
        "`in_step`, the threads of a block run each iteration together if possible"
    ),
    "leave": (
        "() {label} ends its region instead of a `yield`, and all enclosing regions up to the scope with this label"
    ),
    "call": "(*arguments) {function} -> *results of a function of the kernel",
    # threaded level, memory
    "offset": "(pointer, index) -> the pointer, advanced by `index` elements",
    "reinterpret": "(pointer) -> a pointer to the same address with elements of the result's dtype",
    "address": "(pointer) -> the address as int64",
    "pointer": "(address) -> the pointer with this address (not to local memory)",
    "dynamic_shared": "() -> a pointer (uint8) to the dynamic shared memory that the launch requested",
    "table": "() {values} -> a pointer to constant memory with these elements (a 1-D NumPy array)",
    "atomic_cas": (
        "(pointer, index, expected, value) {scope=device} -> the old element. Stores `value` if the bits of the old element "
        "are those of `expected`"
    ),
    "fence": (
        "() {scope: block, device or system; order=seq_cst or acq_rel} orders this thread's earlier accesses before its later "
        "accesses"
    ),
    # threaded level, between threads. Masks are uint32, bit k for lane k
    "barrier_vote": "(condition) {kind: count, and, or} -> int32, the same for all threads of the block",
    "grid_barrier": "() waits for all threads of the grid (cooperative launch)",
    "warp_barrier": "(mask) waits for the lanes in `mask`",
    "shuffle": (
        "(mask, x, lane) {mode: idx, up, down, xor; width=32} -> x of another lane: number `lane`, `lane` below or above the "
        "own lane, or own lane ^ `lane` (int32), within groups of `width` lanes. If there is no such lane, the result is the own "
        "x. Lane numbers are taken modulo 32. As on the machine, xor also reaches lower groups"
    ),
    "vote": "(mask, condition) {kind: all, any, eq, ballot} -> bool, or uint32 for ballot",
    "match": (
        "(mask, x) {kind: any, all} -> uint32 mask of the lanes with the same bits. For all: `mask` or 0, and a bool"
    ),
    "active_mask": "() -> uint32 mask of the lanes of the warp that execute this operation together",
    "warp_reduce": (
        "(mask, x) {kind: add, minimum, maximum, bitwise_and, bitwise_or, bitwise_xor} -> x reduced over the lanes in `mask`. "
        "If these are all 32 lanes, by halves: each lane combines its value with that of lane ^ 16, ^ 8, ^ 4, ^ 2, ^ 1. "
        "Otherwise in ascending order of the lanes"
    ),
    # threaded level, other operations
    "clock": "() -> int64, a cycle counter",
    "sleep": "(nanoseconds) suspends the thread for approximately this time (uint32)",
    "print": (
        "(*values) {pieces, formats=()} prints texts and values alternately, with one more text than values. Each value has a "
        "format of C's printf without the %: `.3f`, `08x`. An empty or missing format means d for integers, g for floats, "
        "and True or False for bools"
    ),
    "trace": (
        "(pointer, *numbers) or (*numbers) {site, align=1} -> bool. Reports to the listener of the launch that the thread has "
        "reached this site, with the address and the numbers (floats as bits). The result is whether the address is a multiple "
        "of `align`. On the host only, in kernels whose attribute ``trace`` is the number of words of an event: 3 plus the maximum "
        "count of numbers"
    ),
    "approximate": (
        "(x) {function: reciprocal, reciprocal root} -> the machine's approximation: for float32 within a unit (2^-22.4 for "
        "roots), for float64 within 2^-17. Subnormal numbers are treated as zeros. On a GPU only"
    ),
    "external": (
        "(*values) {symbol} -> the result of a libdevice function or, with `links`, of a function in the code with these "
        "digests. On a GPU only"
    ),
    "assembly": "(*values) {template, constraints} -> *results of inline PTX. On a GPU only",
}

# Operations that synchronize threads.
SYNCHRONIZATION = frozenset(
    {
        "barrier",
        "barrier_vote",
        "grid_barrier",
        "warp_barrier",
        "shuffle",
        "shuffle_xor",
        "vote",
        "match",
        "active_mask",
        "warp_reduce",
    }
)
