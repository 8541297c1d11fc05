"""The base class of the emitter's parts, which writes the text of an LLVM module.

In: lines and declarations. Out: the parts of a module's text. Invariant: a value is bound to its text before its use.
The block of the latest `label` is open, so that text may be appended at any time, also after a branch.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Pointer, Value
from weft.runtime import CompileError


@dataclass(frozen=True, slots=True)
class Item:
    """A value as LLVM text: a scalar, or a vector of `lanes` values.

    With `lanes` 0, it is one scalar for all lanes. With a `step`, it is the scalar of lane 0, and grows by `step` from
    lane to lane. Otherwise it is a vector. `known` is the value of an integer constant.
    """

    text: str
    lanes: int = 0
    step: int | str | None = None
    known: int | None = None


SCALARS = {
    "?": "i1",
    "b": "i8",
    "B": "i8",
    "h": "i16",
    "H": "i16",
    "i": "i32",
    "I": "i32",
    "l": "i64",
    "L": "i64",
    "q": "i64",
    "Q": "i64",
    "e": "half",
    "f": "float",
    "d": "double",
}
_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}


def scalar_type(dtype: np.dtype) -> str:
    """Return the LLVM type of a scalar with a given dtype."""
    return SCALARS[dtype.char]


def memory_type(dtype: np.dtype) -> str:
    """Return the LLVM type in which elements of a dtype are stored in memory."""
    return "i8" if dtype.kind == "b" else SCALARS[dtype.char]


def wide(type_name: str, lanes: int) -> str:
    """Return the LLVM type of a vector of `lanes` elements, or the element type if `lanes` is 0."""
    return f"<{lanes} x {type_name}>" if lanes else type_name


def suffix(type_name: str, lanes: int) -> str:
    """Return the type suffix of an intrinsic's name."""
    return (f"v{lanes}" if lanes else "") + _SUFFIX.get(type_name, type_name)


def literal(value: Any, dtype: np.dtype) -> str:
    """Return the text of a constant, exact to the last bit."""
    match dtype.kind:
        case "b":
            return "true" if value else "false"
        case "i" | "u":
            return str(int(value))
        case _:
            if dtype.char == "e":
                return f"0xH{np.float16(value).view(np.uint16):04X}"
            # LLVM writes float constants as the double of the same value
            with np.errstate(all="ignore"):
                return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


_FLOATS = re.compile(r"(%v\d+ = (?:fadd|fsub|fmul|fdiv|fneg|call(?= (?:float|double) @llvm\.(?:sqrt|fma)\.)))(?= )")


def with_float_flags(text: str, flags: str) -> str:
    """Add fast-math flags to the float instructions in `text`, except in formulas that must stay exact.

    These are the formulas of elementary functions.
    """
    return _FLOATS.sub(rf"\1 {flags}", text)


def _no_notes(operation: Operation) -> str:
    return ""


class NoPolls:
    """Replacement for `InterruptPolls` in code that does not poll for interrupts."""

    fault = ""  # the address of the launch record, as a number

    def end_iteration(self, body: Block) -> None:
        """Emit nothing at the end of an iteration of a `for` loop."""

    def end_repetition(self, repeat: Operation) -> None:
        """Emit nothing at the end of an iteration of a `repeat` loop."""

    def count(self, iterations: int) -> None:
        """Emit nothing, since iterations are not counted."""


@dataclass
class Writer:
    """Writer of a module's text, with the state that all parts of the emitter share."""

    kernel: Kernel
    dialect: Any  # emit.Dialect
    lines: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)  # symbol -> declaration
    globals: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)
    keeps_loops: bool = False  # whether metadata marks the loops that must not be unrolled
    environment: dict[Value, Item] = field(default_factory=dict)
    wide_indices: dict[str, str] = field(default_factory=dict)  # a narrowed index -> the i64 from which it was made
    lanes: int = 0
    vectorizes: bool = False  # whether LLVM may vectorize a loop around the current operation
    mask: str = ""  # lanes that an enclosing `if` or a masked remainder leaves active; empty: all
    active: str = ""  # number of leading lanes that a masked remainder leaves active, in the index dtype; empty: all
    count: int = 0
    label: str = "entry"
    outermost: bool = True
    # scopes around the open block, outermost first: label of the kernel IR, label of the block after the scope
    scopes: list[tuple[str, str]] = field(default_factory=list)
    # additional text of a load or store: ", !metadata ..."
    notes: Callable[[Operation], str] = _no_notes
    # counter that is notified of loop iterations
    polls: NoPolls = field(default_factory=NoPolls)
    # arguments that functions take in addition to their own: LLVM type and text; inside a function their names are
    # %context.0 ...
    context: list[tuple[str, str]] = field(default_factory=list)
    # whether loads are prefetched in the open loop, and the prefetched loads; the non-temporal stores of the open loop,
    # and whether the kernel has any
    fetching: bool = False
    fetched: set[Operation] = field(default_factory=set)
    past_cache: set[Operation] = field(default_factory=set)
    wrote_past: bool = False
    allocas: list[str] = field(default_factory=list)
    allocas_at: int = -1

    # -- text ------------------------------------------------------------------------------

    def name(self) -> str:
        """Return an unused local name."""
        self.count += 1
        return f"%v{self.count}"

    def line(self, text: str) -> str:
        """Append an instruction, and return the name of its result."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction that has no result."""
        self.lines.append(f"  {text}")

    def fresh_number(self) -> int:
        """Return an unused number for labels."""
        self.count += 1
        return self.count

    def declare(self, symbol: str, result: str, parameters: list[str]) -> None:
        """Declare an external symbol."""
        self.declarations.setdefault(symbol, f"declare {result} @{symbol}({', '.join(parameters)})")

    def call(self, symbol: str, result: str, arguments: list[tuple[str, str]]) -> str:
        """Declare an external function, call it, and return the name of its result."""
        self.declare(symbol, result, [kind for kind, _ in arguments])
        return self.line(f"call {result} @{symbol}({', '.join(f'{k} {v}' for k, v in arguments)})")

    def start_label(self, label: str) -> None:
        """Begin a basic block."""
        self.label = label
        self.lines.append(f"{label}:")

    def reserve_allocas(self) -> None:
        """Mark the current position as the point where the open function's allocas will be inserted."""
        self.allocas = []
        self.allocas_at = len(self.lines)
        self.lines.append("")

    def close_function(self, end: str) -> None:
        """End the open function, and insert its allocas."""
        self.lines += [f"  {end}", "}"]
        self.lines[self.allocas_at] = "\n".join(self.allocas)

    def alloca(self, type_name: str, align: int) -> str:
        """Allocate memory in the frame of the open function."""
        name = self.name()
        self.allocas.append(f"  {name} = alloca {type_name}, align {align}")
        return name

    # -- values ----------------------------------------------------------------------------

    def scalar_of(self, value: Value) -> str:
        """Return the LLVM text of a scalar value, which must be the same in all lanes."""
        item = self.environment[value]
        if item.lanes:
            raise CompileError(f"%{value.name} differs between lanes where one value is needed")
        return item.text

    def text_of(self, value: Value, lanes: int) -> str:
        """Return the text of a value as a vector of `lanes` values, or as a scalar if `lanes` is 0."""
        item = self.environment[value]
        assert isinstance(value.type, np.dtype)
        if item.lanes == lanes and item.step is None:
            return item.text
        kind = scalar_type(value.type)
        if item.lanes == 0:
            return self.splat(item.text, kind, lanes)
        assert item.step is not None
        base = self.splat(item.text, kind, lanes)
        iota = "<" + ", ".join(f"{kind} {k}" for k in range(lanes)) + ">"
        if item.step == 1:
            steps = iota
        else:
            factor = self.splat(str(item.step), kind, lanes)
            steps = self.line(f"mul {wide(kind, lanes)} {iota}, {factor}")
        vector = self.line(f"add {wide(kind, lanes)} {base}, {steps}")
        return vector

    def splat(self, text: str, kind: str, lanes: int) -> str:
        """Return a vector that holds a scalar in every lane, or the scalar itself if `lanes` is 0."""
        if not lanes:
            return text
        vector = wide(kind, lanes)
        first = self.line(f"insertelement {vector} poison, {kind} {text}, i64 0")
        return self.line(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")

    def varying(self, operands: tuple[Value, ...]) -> bool:
        """Return whether any of `operands` differs between vector lanes."""
        return any(self.environment[v].lanes for v in operands)

    def set(self, operation: Operation, item: Item) -> None:
        """Record the LLVM text of an operation's only result."""
        self.environment[operation.results[0]] = item

    def type_of(self, type: np.dtype | Pointer) -> str:
        """Return the LLVM type of a scalar or a pointer."""
        if isinstance(type, Pointer):
            where: str = self.dialect.pointer(type)
            return where
        return scalar_type(type)

    # -- blocks ----------------------------------------------------------------------------

    def block(self, block: Block) -> list[Value]:
        """Emit a block, and return the values of its `yield`.

        There are no values if the block ends in a `leave`.
        """
        for operation in block.operations:
            if operation.opcode == "yield":
                return list(operation.operands)
            self.operation(operation)
        return []

    def operation(self, operation: Operation) -> None:
        """Emit one operation."""
        raise NotImplementedError
