"""The kernel IR: typed, structured operations in one kernel.

In: what `KernelBuilder` appends. Out: what the passes rewrite, the emitters lower and the
interpreter runs. Always true: every `Value` is defined before its use, in its own block or
in one around it; an operation's operands, results and regions are all declared in its
fields, so that one generic walk reaches everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Space = Literal["global", "shared", "local"]
Role = Literal["parallel", "reduce", "scan", "serial"]
Level = Literal["logical", "threaded"]


@dataclass(frozen=True, slots=True)
class Pointer:
    """The type of a pointer to elements of `dtype` in an address space."""

    dtype: np.dtype
    space: Space = "global"


Type = np.dtype | Pointer


class Value:
    """One typed value: a kernel parameter, a region parameter or an operation's result.

    `name` is unique in its kernel and is what the text form prints after ``%``.
    """

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: Type) -> None:
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"%{self.name}"


class Block:
    """A straight list of operations with parameters; a region of an operation."""

    __slots__ = ("operations", "parameters")

    def __init__(self, parameters: tuple[Value, ...] = ()) -> None:
        self.parameters = parameters
        self.operations: list[Operation] = []


class Operation:
    """One operation: an opcode of the op table, or one of `STRUCTURAL`."""

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
    """A kernel parameter: a pointer (one buffer at an offset) or a scalar.

    `writable`: the kernel stores through it. `noalias`: nothing else the kernel touches
    overlaps it. `align`: bytes that the address is known to be a multiple of.
    """

    value: Value
    writable: bool = False
    noalias: bool = False
    align: int = 1


@dataclass(slots=True)
class Kernel:
    """One kernel: parameters, body, the width of its index arithmetic and its level.

    `index_dtype` is int32 or int64; every loop index, extent and address of the kernel has it.
    `attributes` is plain data (str, int, bool, tuples of them): ``fast``, ``block`` ...
    """

    name: str
    parameters: list[Parameter]
    body: Block
    index_dtype: np.dtype
    level: Level = "logical"
    attributes: dict[str, Any] = field(default_factory=dict)

    def walk(self) -> Iterator[Operation]:
        """Every operation, outer ones first, in program order."""
        stack = [iter(self.body.operations)]
        while stack:
            operation = next(stack[-1], None)
            if operation is None:
                stack.pop()
                continue
            yield operation
            for region in reversed(operation.regions):
                stack.append(iter(region.operations))


# Operations that are not rows of the op table: name -> what it does. Closed: the verifier
# refuses any other opcode that is not a row.
STRUCTURAL: dict[str, str] = {
    "constant": "{value} -> a scalar of the result's dtype",
    "cast": "(x) -> x in the result's dtype (out-of-range float to int saturates, NaN gives 0)",
    "load": "(pointer, index) -> the element at `index`, counted in elements",
    "store": "(pointer, index, value) writes one element",
    "for": (
        "(start, stop, *initial) {role, step=1, combine=()} region(index, *carried) -> *results; "
        "runs index = start, start+step, ... < stop; the region ends in `yield` of the next carried values. "
        "with `step_from` the last operand is the step. "
        "With `lanes` the body may run for so many consecutive indices at once; with `whole` too, that is all it runs. "
        "role reduce: carried values are folded with the rows named in `combine`, in any order"
    ),
    "if": "(condition) region, region -> *results; both regions end in `yield`",
    "yield": "(*values) ends a region",
    # threaded level
    "thread_index": "() {axis} -> index of the thread in its block",
    "block_index": "() {axis} -> index of the block in the grid",
    "block_size": "() {axis} -> threads of a block along the axis",
    "grid_size": "() {axis} -> blocks of the grid along the axis",
    "barrier": "() waits for every thread of the block",
    "shared": "() {count} -> pointer to `count` elements that the block shares",
    "local": "() {count} -> pointer to `count` elements of the thread's own",
    "shuffle_xor": "(x) {mask} -> x of the lane whose number is mine ^ mask (full warp)",
    "atomic": "(pointer, index, value) {kind} -> the old element",
}
