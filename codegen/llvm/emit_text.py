"""The base class of the emitter's parts.

In: lines and declarations. Out: the parts of a module's text. Invariant: a value is bound to its text before its use.
The block of the latest `label` is open, so that text may be appended at any time, also after a branch.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
# Kind of an atomic or of a reduction -> LLVM's names for signed integers, unsigned integers and floats.
ATOMICS = {
    "add": ("add", "add", "fadd"),
    "subtract": ("sub", "sub", "fsub"),
    "minimum": ("min", "umin", "fminimum"),
    "maximum": ("max", "umax", "fmaximum"),
    "fmin": ("min", "umin", "fmin"),
    "fmax": ("max", "umax", "fmax"),
    "bitwise_and": ("and", "and", ""),
    "bitwise_or": ("or", "or", ""),
    "bitwise_xor": ("xor", "xor", ""),
    "exchange": ("xchg", "xchg", "xchg"),
    "increment": ("", "uinc_wrap", ""),
    "decrement": ("", "udec_wrap", ""),
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


def struct_type(kinds: list[str]) -> str:
    """Return one LLVM type for a list of result types."""
    return "void" if not kinds else kinds[0] if len(kinds) == 1 else "{ " + ", ".join(kinds) + " }"


def escaped(data: bytes) -> str:
    """Return bytes as the contents of an LLVM string."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in data)


def bit_width(dtype: np.dtype) -> int:
    """Return the number of bits of a scalar of dtype `dtype`, which is 1 for bool."""
    return 1 if dtype.kind == "b" else 8 * dtype.itemsize


def _is_literal(text: str) -> bool:
    return text.lstrip("-").isdigit()


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
    """Return LLVM text with the fast-math flags `flags` on float instructions.

    The formulas of elementary functions get no flags.
    """
    return _FLOATS.sub(rf"\1 {flags}", text)


def _no_notes(operation: Operation) -> str:
    return ""


class NoPolls:
    """Replacement for `InterruptPolls` in code that does not poll for interrupts."""

    fault = ""  # the address of the fault record, as an integer

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
    dialect: Any  # HostDialect, or a class with the same methods
    lines: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)  # symbol -> declaration
    globals: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=list)
    keeps_loops: bool = False  # whether the attributes `rolled` and `opaque` of loops have an effect
    environment: dict[Value, Item] = field(default_factory=dict)
    wide_indices: dict[str, str] = field(default_factory=dict)  # a narrowed index -> the i64 from which it was made
    lanes: int = 0
    vectorizes: bool = False  # whether LLVM may vectorize a loop around the current operation
    mask: str = ""  # lanes that an enclosing `if` or a masked remainder leaves active; empty: all
    # accesses in the open loop -> the accesses of consecutive elements in the same iteration (see `find_interleaved`)
    interleaved: dict[Operation, list[Operation]] = field(default_factory=dict)
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
        """Declare an external function, emit a call, and return the name of the result ("" for void)."""
        self.declare(symbol, result, [kind for kind, _ in arguments])
        return self.append(result, f"call {result} @{symbol}({', '.join(f'{k} {v}' for k, v in arguments)})")

    def append(self, kind: str, text: str) -> str:
        """Append an instruction with a result of type `kind`, and return the name of the result ("" for void)."""
        if kind != "void":
            return self.line(text)
        self.do(text)
        return ""

    def start_label(self, label: str) -> None:
        """Begin a basic block."""
        self.label = label
        self.lines.append(f"{label}:")

    def jump(self, target: str, following: str = "", note: str = "") -> None:
        """Branch to the block named by `target`. Begin the block named by `following`, which defaults to `target`.

        `note` is the metadata of the branch instruction.
        """
        self.do(f"br label %{target}{note}")
        self.start_label(following or target)

    def fork(self, condition: str, then: str, other: str, following: str = "") -> None:
        """Branch to the block `then` if the i1 `condition` holds, otherwise to the block `other`.

        Begin the block `following`, by default `then`.
        """
        self.do(f"br i1 {condition}, label %{then}, label %{other}")
        self.start_label(following or then)

    def reserve_phi(self) -> tuple[str, int]:
        """Reserve a line for a phi instruction, and return the result's name and the line's position."""
        self.lines.append("")
        return self.name(), len(self.lines) - 1

    @contextmanager
    def when(self, condition: str, note: str = "") -> Iterator[None]:
        """Context manager that emits a branch around the code emitted in its body.

        The code runs if the i1 `condition` holds. `note` is the metadata of the branch instruction.
        """
        number = self.fresh_number()
        self.do(f"br i1 {condition}, label %when{number}, label %done{number}{note}")
        self.start_label(f"when{number}")
        yield
        self.jump(f"done{number}")

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
        """Allocate memory in the frame of the open function, and return its address."""
        name = self.name()
        self.allocas.append(f"  {name} = alloca {type_name}, align {align}")
        return name

    def variable(self, kind: str, initial: str) -> str:
        """Allocate an integer variable in the open function's frame, and return its address."""
        align = max(int(kind[1:]) // 8, 1)
        address = self.alloca(kind, align)
        self.do(f"store {kind} {initial}, ptr {address}, align {align}")
        return address

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
        if item.lanes == lanes and item.step is None:
            return item.text
        kind = scalar_type(value.dtype)
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
        return self.line(f"add {wide(kind, lanes)} {base}, {steps}")

    def splat(self, text: str, kind: str, lanes: int) -> str:
        """Return a vector that holds a scalar in every lane, or the scalar itself if `lanes` is 0."""
        if not lanes:
            return text
        vector = wide(kind, lanes)
        first = self.line(f"insertelement {vector} poison, {kind} {text}, i64 0")
        return self.line(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")

    def shuffled(self, vector: str, order: Iterable[int], first: str, second: str = "poison") -> str:
        """Emit a shuffle that selects elements of one or two vectors, and return the result.

        The positions `order` count through `first`, then through `second`. Both vectors have the LLVM type `vector`.
        """
        positions = [f"i32 {k}" for k in order]
        kind = f"<{len(positions)} x i32>"
        return self.line(f"shufflevector {vector} {first}, {vector} {second}, {kind} <{', '.join(positions)}>")

    def varying(self, operands: tuple[Value, ...]) -> bool:
        """Return whether any of `operands` differs between vector lanes."""
        return any(self.environment[v].lanes for v in operands)

    def set(self, operation: Operation, item: Item) -> None:
        """Record the LLVM text of an operation's only result."""
        self.environment[operation.results[0]] = item

    def set_results(self, operation: Operation, kind: str, text: str) -> None:
        """Record the results of an operation, given as one value of the type that `struct_type` returns."""
        if len(operation.results) == 1:
            self.set(operation, Item(text))
            return
        for k, value in enumerate(operation.results):
            self.environment[value] = Item(self.line(f"extractvalue {kind} {text}, {k}"))

    def packed(self, parts: list[tuple[str, str]]) -> str:
        """Return results as one value of the type that `struct_type` returns, or "" for no results.

        `parts` are the types and texts of the results.
        """
        if len(parts) < 2:
            return parts[0][1] if parts else ""
        whole, text = struct_type([kind for kind, _ in parts]), "poison"
        for k, (kind, part) in enumerate(parts):
            text = self.line(f"insertvalue {whole} {text}, {kind} {part}, {k}")
        return text

    def type_of(self, type: np.dtype | Pointer) -> str:
        """Return the LLVM type of a scalar or a pointer."""
        return self.dialect.pointer(type) if isinstance(type, Pointer) else scalar_type(type)

    def as_integer(self, text: str, dtype: np.dtype) -> str:
        """Emit a bitcast of a float to an integer of the same size, and return the result. Return any other value unchanged."""
        return self.line(f"bitcast {scalar_type(dtype)} {text} to i{bit_width(dtype)}") if dtype.kind == "f" else text

    def from_integer(self, text: str, dtype: np.dtype) -> str:
        """Reinterpret the bits of an integer as a value of dtype `dtype`: the inverse of `as_integer`."""
        return self.line(f"bitcast i{bit_width(dtype)} {text} to {scalar_type(dtype)}") if dtype.kind == "f" else text

    def widened(self, text: str, word: str = "sext") -> str:
        """Convert a value of the index dtype to an i64. The parameter `word` is the LLVM instruction for extension."""
        kind = scalar_type(self.kernel.index_dtype)
        return text if kind == "i64" or _is_literal(text) else self.line(f"{word} {kind} {text} to i64")

    def narrowed(self, text: str, word: str = "trunc nuw nsw") -> str:
        """Truncate the i64 value `text` to the kernel's index dtype. The parameter `word` is ``trunc``, with or without flags."""
        kind = scalar_type(self.kernel.index_dtype)
        return text if kind == "i64" or _is_literal(text) else self.line(f"{word} i64 {text} to {kind}")

    # -- blocks ----------------------------------------------------------------------------

    def block(self, block: Block) -> list[Value]:
        """Emit a block, and return the values of its `yield`, or [] if it has none."""
        for operation in block.operations:
            if operation.opcode == "yield":
                return list(operation.operands)
            self.operation(operation)
        return []

    def operation(self, operation: Operation) -> None:
        """Emit one operation. The class `Emitter` implements this method."""
        raise NotImplementedError
