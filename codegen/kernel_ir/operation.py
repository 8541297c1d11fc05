"""Kernel IR: the typed and structured operations of a kernel.

In: operations appended by `KernelBuilder`. Out: the IR that passes rewrite, emitters lower and the interpreter runs.
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


class Value:
    """A typed value: a parameter of the kernel or of a region, or a result of an operation.

    `name` is unique in its kernel and is what the text form prints after ``%``.
    """

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: Type) -> None:
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"%{self.name}"


class Block:
    """A list of operations, and the parameters that these operations can use. The regions of an operation are
    blocks."""

    __slots__ = ("operations", "parameters")

    def __init__(self, parameters: tuple[Value, ...] = ()) -> None:
        self.parameters = parameters
        self.operations: list[Operation] = []


class Operation:
    """An operation: an op of the op table, or an opcode of `STRUCTURAL`."""

    __slots__ = ("attributes", "opcode", "operands", "regions", "results")

    def __init__(
        self,
        opcode: str,
        operands: tuple[Value, ...] = (),
        results: tuple[Value, ...] = (),
        attributes: dict[str, Any] | None = None,
        regions: tuple[Block, ...] = (),
    ) -> None:
        self.opcode = opcode
        self.operands = operands
        self.results = results
        self.attributes = attributes or {}
        self.regions = regions


@dataclass(slots=True)
class Parameter:
    """A kernel parameter: a scalar, or a pointer that a launch passes as a buffer and an offset.

    `writable`: the kernel stores through it. `noalias`: no other memory that the kernel accesses overlaps it. `align`:
    the known alignment of the address in bytes. `by_value`: if not 0, the launch copies this many bytes into the
    kernel's parameters, and the pointer points to them.
    """

    value: Value
    writable: bool = False
    noalias: bool = False
    align: int = 1
    by_value: int = 0

    @property
    def kind(self) -> str:
        """Return the kind of the launch argument: "pointer", "value" with its size in bytes, or a dtype's name."""
        if self.by_value:
            return f"value {self.by_value}"
        return "pointer" if isinstance(self.value.type, Pointer) else self.value.type.name


@dataclass(slots=True)
class Function:
    """A function of a kernel, which the operation `call` runs. Its body ends in a `yield` of its results.

    It has no barriers or warp operations, and may call itself.
    """

    name: str
    parameters: tuple[Value, ...]
    body: Block
    results: tuple[Type, ...]


@dataclass(slots=True)
class Kernel:
    """A kernel: its parameters, body, level and the width of its index arithmetic.

    `index_dtype` is int32 or int64; every loop index, extent and address of the kernel has it.
    `attributes` is plain data (str, int, bool, tuples of them): ``fast``, ``block`` ... Those of explicit kernels:
    ``explicit`` (True), ``launch_bounds`` (threads per block, blocks per multiprocessor), ``max_registers``,
    ``line_info``, ``file``, ``trace``; an operation's attribute ``line`` is the user's line.
    ``arrays`` of an explicit kernel with atomics: a string for each array, with the name of the pointer, the bytes of an
    element, and the names of the parameters that hold the lengths of its axes. If the array is not C-contiguous, the unit
    of its strides in bytes and the names of the parameters that hold the strides follow.
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
        """Yield all operations of the kernel in program order. An operation precedes the operations in its regions."""
        bodies = (self.body, *(function.body for function in self.functions))
        return program_order(operation for body in bodies for operation in body.operations)


def program_order(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield `operations` and the operations in their regions, in program order.

    An operation precedes those in its regions.
    """
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
        "(pointer, index) -> the element at `index`, counted in elements. Loads and stores may say `align` (bytes, where "
        "not the element's own), `volatile`, and `hint` (a cache operator of PTX: ca, cg, cs, lu, cv; wb, cg, cs, wt)"
    ),
    "store": "(pointer, index, value) writes one element",
    "for": (
        "(start, stop, *initial) {role, step=1, combine=()} region(index, *carried) -> *results; "
        "runs index = start, start+step, ... < stop; the region ends in `yield` of the next carried values. "
        "with `step_from` the last operand is the step. "
        "With `rolled` nobody unrolls it; with `opaque` a GPU finds addresses from its index anew in each iteration. With `lanes` "
        "the body may run for so many consecutive indices at once. "
        "role reduce: carried values are combined with the ops named in `combine`, in any order"
    ),
    "if": "(condition) {likely} region, region -> *results; both regions end in `yield`. `likely`: whether it mostly holds",
    "yield": "(*values) ends a region",
    "transposed": (
        "(pointer, index, stride, rows, columns, all) {size} -> pointer to local memory, the same each time it comes by, "
        "where element r * size + c is that at index + r + c * stride; for so many rows and columns, `size` at most, of "
        "the `all` columns that there are from there on"
    ),
    "fetch": "(pointer, index) asks for an element that a later iteration reads; where there is none, for nothing",
    # threaded level
    "thread_index": "() {axis} -> index of the thread in its block",
    "block_index": "() {axis} -> index of the block in the grid",
    "block_size": "() {axis} -> threads of a block along the axis",
    "grid_size": "() {axis} -> blocks of the grid along the axis",
    "lane_index": "() -> index of the thread in its warp",
    "barrier": "() waits for every thread of the block",
    "shared": "() {count} -> pointer to `count` elements that the block shares",
    "local": (
        "() {count, align} -> pointer to `count` elements of the thread's own; the same ones each time it runs. "
        "Also at the logical level, where each call of the host's code has its own"
    ),
    "shuffle_xor": "(x) {mask} -> x of the lane whose number is mine ^ mask (full warp)",
    "atomic": (
        "(pointer, index, value) {kind, scope=device, order=monotonic} -> the old element, as the kind's op leaves it, or "
        "subtract or exchange; of unsigned integers also increment (old >= value: 0, else old + 1) and decrement (old == 0 "
        "or old > value: value, else old - 1). In global or shared memory; also at the logical level; scope: block, device or system; with order "
        "acq_rel there is a fence in front of it and one behind"
    ),
    # threaded level, control flow written by the user
    "scope": "() {label} region; `leave` of its label, anywhere inside, goes on behind it",
    "repeat": (
        "() region, again and again until a `leave` goes out of it. With `in_step` the threads of a block run each iteration "
        "together where that is possible"
    ),
    "leave": (
        "() {label} ends its region, in place of a `yield`, and every one around it up to the scope of that label"
    ),
    "call": "(*arguments) {function} -> *results of one of the kernel's functions",
    # threaded level, memory
    "offset": "(pointer, index) -> the pointer, `index` elements further",
    "reinterpret": "(pointer) -> a pointer to the same place that sees elements of the result's dtype",
    "address": "(pointer) -> int64, a number that stands for the place",
    "pointer": "(address) -> the pointer whose address it is (not to local memory)",
    "dynamic_shared": "() -> pointer (uint8) to the bytes of shared memory that the launch asked for",
    "table": "() {values} -> pointer to constant memory with these elements (a 1-D NumPy array)",
    "atomic_cas": (
        "(pointer, index, expected, value) {scope=device} -> the old element; writes `value` if its bits were those of "
        "`expected`"
    ),
    "fence": (
        "() {scope: block, device or system; order=seq_cst or acq_rel} orders this thread's accesses before those that follow"
    ),
    # threaded level, between threads. Masks are uint32, bit k for lane k
    "barrier_vote": "(condition) {kind: count, and, or} -> int32, the same in every thread of the block",
    "grid_barrier": "() waits for every thread of the grid (cooperative launch)",
    "warp_barrier": "(mask) waits for the lanes in `mask`",
    "shuffle": (
        "(mask, x, lane) {mode: idx, up, down, xor; width=32} -> x of another lane: `lane` itself, so many below or "
        "above mine, or mine ^ lane (int32), within groups of `width` lanes; my own where there is none. The number "
        "counts modulo 32; xor reaches lower groups too, as the machine does"
    ),
    "vote": "(mask, condition) {kind: all, any, eq, ballot} -> bool; for ballot uint32",
    "match": "(mask, x) {kind: any, all} -> uint32 of the lanes with my bits; for all: that mask or 0, and a bool",
    "active_mask": "() -> uint32, the lanes of the warp that run together here",
    "warp_reduce": (
        "(mask, x) {kind: add, minimum, maximum, bitwise_and, bitwise_or, bitwise_xor} -> x reduced over the lanes in "
        "`mask`: with all 32 by halves (mine with that of lane mine ^ 16, ^ 8, ^ 4, ^ 2, ^ 1), else from the lowest up"
    ),
    # threaded level, odds and ends
    "clock": "() -> int64, a counter of cycles",
    "sleep": "(nanoseconds) suspends the thread for about so long (uint32)",
    "print": (
        "(*values) {pieces, formats=()} prints the texts and values, alternating: one more piece than values. "
        "A format a value, as C's printf has them without the %: `.3f`, `08x`; where it is empty (or there are none): "
        "d for integers, g for floats, True or False for bools"
    ),
    "trace": (
        "(pointer, *numbers) or (*numbers) {site, align=1} -> bool; tells the listener of the launch that the thread comes "
        "by this site, with the address and the numbers (floats by their bits); true where the address is a multiple of "
        "`align`. On the host only, where the kernel's attribute ``trace`` is the words of an event: 3 and the most numbers"
    ),
    "approximate": (
        "(x) {function: reciprocal, reciprocal root} -> about that, as the machine has it: of float32 within a unit (2^-22.4 for "
        "roots), of float64 within 2^-17; subnormal numbers count as zeros. On a GPU only"
    ),
    "external": (
        "(*values) {symbol} -> the result of one of libdevice's functions, or with `links` of a function in the code with "
        "these digests; on a GPU only"
    ),
    "assembly": "(*values) {template, constraints} -> *results of inline PTX; on a GPU only",
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
