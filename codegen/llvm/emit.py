"""Kernel IR to LLVM assembly text.

In: a kernel after the target's passes: rows with a lowering, no complex values, no float16 arithmetic.
Out: the text of one LLVM module. The emitter is the same for every target; a `Dialect` supplies the entry,
address spaces, math functions and thread operations. Always true: inside the body of a loop with `lanes`
every value is either the same for all lanes (a scalar), linear in the lane (a scalar and a step), or a
vector; accesses keep program order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Pointer, Value
from weft.codegen.ops import find_op
from weft.runtime import CompileError


@dataclass(frozen=True, slots=True)
class Item:
    """A value as LLVM text. `lanes` 0: one scalar for all lanes; else a vector of that many lanes, or, where
    `step` is not None, the scalar of lane 0 that grows by `step` (an int or an index value) from lane to lane.
    `known` is the number of an integer constant."""

    text: str
    lanes: int = 0
    step: int | str | None = None
    known: int | None = None


class Dialect(Protocol):
    """What a target adds."""

    def pointer(self, type: Pointer) -> str:
        """The LLVM type of a pointer."""
        ...

    def begin(self, emitter: Emitter) -> None:
        """Open the entry function and bind the kernel's parameters."""
        ...

    def outer_bounds(self, emitter: Emitter, operation: Operation) -> tuple[str, str] | None:
        """Other bounds for the outermost parallel loop, or None."""
        ...

    def math(self, emitter: Emitter, name: str, dtype: np.dtype, operands: list[str], lanes: int) -> str:
        """A call of a C library function on scalars (lanes 0) or vectors."""
        ...

    def operation(self, emitter: Emitter, operation: Operation) -> bool:
        """Emit an operation of the target's own; False if it has no such operation."""
        ...


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
    """The LLVM type of one element as a value."""
    return SCALARS[dtype.char]


def wide(type_name: str, lanes: int) -> str:
    """A type, or a vector of it."""
    return f"<{lanes} x {type_name}>" if lanes else type_name


def suffix(type_name: str, lanes: int) -> str:
    """How an intrinsic's name spells a type."""
    return (f"v{lanes}" if lanes else "") + _SUFFIX.get(type_name, type_name)


def literal(value: Any, dtype: np.dtype) -> str:
    """A constant's text, to the bit."""
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


@dataclass(slots=True)
class Emitter:
    """Writes one kernel."""

    kernel: Kernel
    dialect: Dialect
    lines: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)  # symbol -> declaration
    globals: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
    environment: dict[Value, Item] = field(default_factory=dict)
    lanes: int = 0
    count: int = 0
    label: str = "entry"
    outermost: bool = True

    def emit(self) -> str:
        """The module's text."""
        self.dialect.begin(self)
        self.block(self.kernel.body)
        self.lines += ["  ret void", "}"]
        return "\n".join([*self.globals, *self.lines, *self.declarations.values(), *self.attributes, ""])

    # -- text -----------------------------------------------------------------------------

    def name(self) -> str:
        """An unused local name."""
        self.count += 1
        return f"%v{self.count}"

    def line(self, text: str) -> str:
        """Append an instruction with a result; its name."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def declare(self, symbol: str, result: str, parameters: list[str]) -> None:
        """Declare an outside symbol."""
        self.declarations.setdefault(symbol, f"declare {result} @{symbol}({', '.join(parameters)})")

    def call(self, symbol: str, result: str, arguments: list[tuple[str, str]]) -> str:
        """Call a declared function."""
        self.declare(symbol, result, [kind for kind, _ in arguments])
        return self.line(f"call {result} @{symbol}({', '.join(f'{k} {v}' for k, v in arguments)})")

    def start_label(self, label: str) -> None:
        """Begin a basic block."""
        self.label = label
        self.lines.append(f"{label}:")

    # -- values ---------------------------------------------------------------------------

    def scalar_of(self, value: Value) -> str:
        """A value that is the same for all lanes."""
        item = self.environment[value]
        if item.lanes:
            raise CompileError(f"%{value.name} differs between lanes where one value is needed")
        return item.text

    def text_of(self, value: Value, lanes: int) -> str:
        """A value as a scalar (lanes 0) or as a vector."""
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
        """A scalar in every lane."""
        vector = wide(kind, lanes)
        first = self.line(f"insertelement {vector} poison, {kind} {text}, i64 0")
        return self.line(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")

    def varying(self, operands: tuple[Value, ...]) -> bool:
        """Whether a value differs between lanes."""
        return any(self.environment[v].lanes for v in operands)

    # -- blocks ---------------------------------------------------------------------------

    def block(self, block: Block) -> list[Value]:
        """Emit a block; what its `yield` gives."""
        for operation in block.operations:
            if operation.opcode == "yield":
                return list(operation.operands)
            self.operation(operation)
        return []

    def operation(self, operation: Operation) -> None:
        """Emit one operation."""
        structural = _STRUCTURAL.get(operation.opcode)
        if structural is not None:
            structural(self, operation)
        elif not self.dialect.operation(self, operation):
            self.row(operation)

    def set(self, operation: Operation, item: Item) -> None:
        """Bind an operation's one result."""
        self.environment[operation.results[0]] = item

    # -- rows -----------------------------------------------------------------------------

    def row(self, operation: Operation) -> None:
        """A row of the op table by its lowering."""
        if self._linear(operation):
            return
        row = find_op(operation.opcode)
        first, result = operation.operands[0].type, operation.results[0].type
        assert isinstance(first, np.dtype)
        assert isinstance(result, np.dtype)
        how = row.lowering.get(first.kind)
        if how is None:
            raise CompileError(f"{row.name} has no lowering for {first}")
        lanes = self.lanes if self.varying(operation.operands) else 0
        if how == "same":
            self.set(operation, self.environment[operation.operands[0]])
            return
        texts = [self.text_of(v, lanes) for v in operation.operands]
        kind = wide(scalar_type(first), lanes)
        form, _, word = how.partition(" ")
        match form:
            case "instruction" if len(texts) == 1:
                text = self.line(f"{word} {kind} {texts[0]}")
            case "instruction":
                text = self.line(f"{word} {kind} {texts[0]}, {texts[1]}")
            case "icmp" | "fcmp":
                text = self.line(f"{form} {word} {kind} {texts[0]}, {texts[1]}")
            case "negate":
                text = self.line(f"sub {kind} zeroinitializer, {texts[0]}" if lanes else f"sub {kind} 0, {texts[0]}")
            case "not":
                ones = self.splat("-1" if first.kind != "b" else "true", scalar_type(first), lanes) if lanes else "-1"
                text = self.line(f"xor {kind} {texts[0]}, {ones}")
            case "select":
                value = wide(scalar_type(result), lanes)
                text = self.line(f"select {kind} {texts[0]}, {value} {texts[1]}, {value} {texts[2]}")
            case "intrinsic":
                arguments = [(kind, t) for t in texts] + ([("i1", "false")] if word == "llvm.abs" else [])
                text = self.call(f"{word}.{suffix(scalar_type(first), lanes)}", kind, arguments)
            case "math":
                text = self.dialect.math(self, word, first, texts, lanes)
            case _:
                raise CompileError(f"{row.name}: unknown lowering {how!r}")
        self.set(operation, Item(text, lanes))

    def _linear(self, operation: Operation) -> bool:
        """Index arithmetic that stays linear in the lane, or constant."""
        name = operation.opcode
        if name not in ("add", "subtract", "multiply") or operation.results[0].type != self.kernel.index_dtype:
            return False
        x, y = (self.environment[v] for v in operation.operands)
        if not self.lanes or not (x.step is not None or y.step is not None):
            return False
        if any(i.lanes and i.step is None for i in (x, y)):
            return False
        kind = scalar_type(self.kernel.index_dtype)
        word = {"add": "add", "subtract": "sub", "multiply": "mul"}[name]
        if name == "multiply":
            if x.step is not None and y.step is not None:
                return False
            line, uniform = (x, y) if x.step is not None else (y, x)
            base = self.line(f"mul nsw {kind} {line.text}, {uniform.text}")
            step = self._step("mul", line.step, uniform.known if uniform.known is not None else uniform.text)
        else:
            base = self.line(f"{word} nsw {kind} {x.text}, {y.text}")
            step = self._step(word, x.step or 0, y.step or 0)
        self.set(operation, Item(base, 0, None) if step == 0 else Item(base, self.lanes, step))
        return True

    def _step(self, word: str, x: int | str | None, y: int | str | None) -> int | str:
        assert x is not None
        assert y is not None
        if isinstance(x, int) and isinstance(y, int):
            return x + y if word == "add" else x - y if word == "sub" else x * y
        if word == "mul" and x == 1:
            return y
        if word == "add" and x == 0:
            return y
        if word != "mul" and y == 0:
            return x
        return self.line(f"{word} nsw {scalar_type(self.kernel.index_dtype)} {x}, {y}")

    # -- memory ---------------------------------------------------------------------------

    def element(self, pointer: Value, index: str, kind: str) -> str:
        """The address of an element."""
        assert isinstance(pointer.type, Pointer)
        where = self.dialect.pointer(pointer.type)
        width = scalar_type(self.kernel.index_dtype)
        if width != "i64" and not index.lstrip("-").isdigit():
            index = self.line(f"sext {width} {index} to i64")
        return self.line(f"getelementptr inbounds {kind}, {where} {self.scalar_of(pointer)}, i64 {index}")

    def alignment(self, pointer: Value, lanes: int) -> int:
        """What an access may assume: the element's alignment, more where the address is known to allow it."""
        assert isinstance(pointer.type, Pointer)
        size = pointer.type.dtype.itemsize
        if not lanes or pointer.name not in self.kernel.attributes.get("aligned", ()):
            return size
        known = next((p.align for p in self.kernel.parameters if p.value is pointer), size)
        return max(size, min(size * lanes, known))

    def load(self, operation: Operation) -> None:
        """A load: scalar, vector, or lane by lane."""
        pointer, index = operation.operands
        item = self.environment[index]
        dtype = pointer.type.dtype  # type: ignore[union-attr]
        memory = "i8" if dtype.kind == "b" else scalar_type(dtype)
        notes = self.dialect_notes(pointer)
        if item.lanes == 0:
            address = self.element(pointer, item.text, memory)
            size = self.alignment(pointer, 0)
            text = self.line(f"load {memory}, {self.where(pointer)} {address}, align {size}{notes}")
            self.set(operation, Item(self._as_value(text, dtype, 0)))
            return
        lanes = self.lanes
        vector = wide(memory, lanes)
        if item.step == 1:
            address = self.element(pointer, item.text, memory)
            size = self.alignment(pointer, lanes)
            text = self.line(f"load {vector}, {self.where(pointer)} {address}, align {size}{notes}")
        elif item.step == -1:
            width = scalar_type(self.kernel.index_dtype)
            last = self.line(f"add nsw {width} {item.text}, {1 - lanes}")
            address = self.element(pointer, last, memory)
            straight = self.line(f"load {vector}, {self.where(pointer)} {address}, align {dtype.itemsize}{notes}")
            order = ", ".join(f"i32 {k}" for k in reversed(range(lanes)))
            text = self.line(f"shufflevector {vector} {straight}, {vector} poison, <{lanes} x i32> <{order}>")
        else:
            text = "poison"
            for lane, position in enumerate(self.lane_indices(index)):
                address = self.element(pointer, position, memory)
                one = self.line(f"load {memory}, {self.where(pointer)} {address}, align {dtype.itemsize}{notes}")
                text = self.line(f"insertelement {vector} {text}, {memory} {one}, i64 {lane}")
        self.set(operation, Item(self._as_value(text, dtype, lanes), lanes))

    def where(self, pointer: Value) -> str:
        """The LLVM type of a pointer value."""
        assert isinstance(pointer.type, Pointer)
        return self.dialect.pointer(pointer.type)

    def dialect_notes(self, pointer: Value) -> str:
        """Metadata of accesses through a pointer."""
        return ""

    def lane_indices(self, index: Value) -> list[str]:
        """The index of every lane as a scalar."""
        item = self.environment[index]
        width = scalar_type(self.kernel.index_dtype)
        if item.step is None:
            vector = wide(width, self.lanes)
            return [self.line(f"extractelement {vector} {item.text}, i64 {k}") for k in range(self.lanes)]
        texts = [item.text]
        for _ in range(1, self.lanes):
            texts.append(self.line(f"add nsw {width} {texts[-1]}, {item.step}"))
        return texts

    def _as_value(self, text: str, dtype: np.dtype, lanes: int) -> str:
        if dtype.kind != "b":
            return text
        return self.line(f"icmp ne {wide('i8', lanes)} {text}, {'zeroinitializer' if lanes else '0'}")

    def store(self, operation: Operation) -> None:
        """A store: scalar, vector, or lane by lane."""
        pointer, index, value = operation.operands
        item = self.environment[index]
        dtype = pointer.type.dtype  # type: ignore[union-attr]
        memory = "i8" if dtype.kind == "b" else scalar_type(dtype)
        if item.lanes == 0:
            kept = self.environment[value]
            lanes = kept.lanes
            text = self._as_memory(self.text_of(value, lanes), dtype, lanes)
            if lanes:
                # every lane writes the one place: the last one stays
                text = self.line(f"extractelement {wide(memory, lanes)} {text}, i64 {lanes - 1}")
            address = self.element(pointer, item.text, memory)
            self.lines.append(
                f"  store {memory} {text}, {self.where(pointer)} {address}, align {self.alignment(pointer, 0)}"
            )
            return
        lanes = self.lanes
        vector = wide(memory, lanes)
        text = self._as_memory(self.text_of(value, lanes), dtype, lanes)
        if item.step == 1:
            address = self.element(pointer, item.text, memory)
            size = self.alignment(pointer, lanes)
            self.lines.append(f"  store {vector} {text}, {self.where(pointer)} {address}, align {size}")
            return
        for lane, position in enumerate(self.lane_indices(index)):
            address = self.element(pointer, position, memory)
            one = self.line(f"extractelement {vector} {text}, i64 {lane}")
            self.lines.append(f"  store {memory} {one}, {self.where(pointer)} {address}, align {dtype.itemsize}")

    def _as_memory(self, text: str, dtype: np.dtype, lanes: int) -> str:
        if dtype.kind != "b":
            return text
        return self.line(f"zext {wide('i1', lanes)} {text} to {wide('i8', lanes)}")

    # -- constants and casts --------------------------------------------------------------

    def constant(self, operation: Operation) -> None:
        """A constant is its text."""
        dtype = operation.results[0].type
        assert isinstance(dtype, np.dtype)
        value = operation.attributes["value"]
        known = int(value) if dtype.kind in "iu" else None
        self.set(operation, Item(literal(value, dtype), known=known))

    def cast(self, operation: Operation) -> None:
        """Between dtypes; float to integer saturates and takes NaN to 0."""
        (value,) = operation.operands
        source, target = value.type, operation.results[0].type
        assert isinstance(source, np.dtype)
        assert isinstance(target, np.dtype)
        item = self.environment[value]
        lanes = self.lanes if item.lanes else 0
        if item.step is not None and target.kind in "iu" and isinstance(item.step, int):
            # an index in another integer type stays linear
            text = self.convert(item.text, source, target, 0)
            if target == self.kernel.index_dtype:
                self.set(operation, Item(text, lanes, item.step))
                return
        known = item.known if target.kind in "iu" else None
        self.set(operation, Item(self.convert(self.text_of(value, lanes), source, target, lanes), lanes, known=known))

    def convert(self, text: str, source: np.dtype, target: np.dtype, lanes: int) -> str:
        """`text` of dtype `source` in dtype `target`."""
        old, new = scalar_type(source), scalar_type(target)
        if source.kind in "iu" and target.kind in "iu" and old == new:
            return text
        if target.kind == "b":
            zero = "zeroinitializer" if lanes else ("0.0" if source.kind == "f" else "0")
            return self.line(f"{'fcmp une' if source.kind == 'f' else 'icmp ne'} {wide(old, lanes)} {text}, {zero}")
        if source.kind == "f" and target.kind in "iu":
            if old == "half":
                text, old = self.line(f"fpext {wide(old, lanes)} {text} to {wide('float', lanes)}"), "float"
            name = f"llvm.fpto{'s' if target.kind == 'i' else 'u'}i.sat.{suffix(new, lanes)}.{suffix(old, lanes)}"
            return self.call(name, wide(new, lanes), [(wide(old, lanes), text)])
        if old == "double" and new == "half":
            # in two steps: a direct one is a library call that not every machine has
            text, old = self.line(f"fptrunc {wide(old, lanes)} {text} to {wide('float', lanes)}"), "float"
        if source.kind in "biu" and new == "half":
            step = "uitofp" if source.kind != "i" else "sitofp"
            text, old = self.line(f"{step} {wide(old, lanes)} {text} to {wide('float', lanes)}"), "float"
            return self.line(f"fptrunc {wide(old, lanes)} {text} to {wide(new, lanes)}")
        if source.kind == "f":
            word = "fpext" if target.itemsize > source.itemsize else "fptrunc"
        elif target.kind == "f":
            word = "sitofp" if source.kind == "i" else "uitofp"
        elif target.itemsize < source.itemsize:
            word = "trunc"
        else:
            word = "sext" if source.kind == "i" else "zext"
        return self.line(f"{word} {wide(old, lanes)} {text} to {wide(new, lanes)}")

    # -- control flow ---------------------------------------------------------------------

    def loop(self, operation: Operation) -> None:
        """A `for`, with or without lanes."""
        start, stop = (self.scalar_of(v) for v in operation.operands[:2])
        if self.outermost and operation.attributes["role"] == "parallel":
            self.outermost = False
            start, stop = self.dialect.outer_bounds(self, operation) or (start, stop)
        step: int | str = operation.attributes.get("step", 1)
        initial = operation.operands[2:]
        if operation.attributes.get("step_from"):
            *initial, last = initial  # type: ignore[assignment]
            step = self.scalar_of(last)
        lanes = operation.attributes.get("lanes", 0)
        if lanes and operation.attributes.get("whole"):
            # exactly `lanes` turns: straight code
            self.lanes = lanes
            self.environment[operation.regions[0].parameters[0]] = Item(start, lanes, 1)
            self.block(operation.regions[0])
            self.lanes = 0
            return
        if lanes:
            self.lanes_loop(operation, start, stop, lanes)
            return
        carried = [self.text_of(v, self.lanes) for v in initial]
        results = self.plain_loop(operation.regions[0], start, stop, step, carried, self.lanes)
        for value, text in zip(operation.results, results, strict=True):
            self.environment[value] = Item(text, self.lanes)

    def plain_loop(
        self,
        body: Block,
        start: str,
        stop: str,
        step: int | str,
        carried: list[str],
        lanes: int,
        linear: bool = False,
        last: str = "",
    ) -> list[str]:
        """``for (i = start; i < stop; i += step)``; `linear`: the index grows by 1 from lane to lane; the body
        sees no index above `last`."""
        kind = scalar_type(self.kernel.index_dtype)
        number = self.count = self.count + 1
        head, inside, after = f"head{number}", f"body{number}", f"after{number}"
        before = self.label
        self.lines.append(f"  br label %{head}")
        self.start_label(head)
        index = self.name()
        slot = len(self.lines)
        self.lines.append("")
        phis = []
        for value in body.parameters[1:]:
            phis.append(self.name())
            self.lines.append("")
            assert isinstance(value.type, np.dtype)
            self.environment[value] = Item(phis[-1], lanes)
        inner = self.line(f"icmp slt {kind} {index}, {stop}")
        self.lines.append(f"  br i1 {inner}, label %{inside}, label %{after}")
        self.start_label(inside)
        at = index
        if last:
            below = self.line(f"icmp slt {kind} {index}, {last}")
            at = self.line(f"select i1 {below}, {kind} {index}, {kind} {last}")
        self.environment[body.parameters[0]] = Item(at, lanes, 1) if linear else Item(at)
        yielded = [self.text_of(v, lanes) for v in self.block(body)]
        following = self.line(f"add nsw {kind} {index}, {step}")
        self.lines[slot] = f"  {index} = phi {kind} [ {start}, %{before} ], [ {following}, %{self.label} ]"
        for k, (value, phi) in enumerate(zip(body.parameters[1:], phis, strict=True)):
            type_name = wide(scalar_type(value.type), lanes)  # type: ignore[arg-type]
            self.lines[slot + 1 + k] = (
                f"  {phi} = phi {type_name} [ {carried[k]}, %{before} ], [ {yielded[k]}, %{self.label} ]"
            )
        self.lines.append(f"  br label %{head}")
        self.start_label(after)
        return phis

    def lanes_loop(self, operation: Operation, start: str, stop: str, lanes: int) -> None:
        """Whole vectors first, then what is left one by one. A fold keeps one accumulator a lane, folds them
        in a fixed tree, and goes on from there."""
        kind = scalar_type(self.kernel.index_dtype)
        body = operation.regions[0]
        half = (len(operation.operands) - 2) // 2
        initial = [self.scalar_of(v) for v in operation.operands[2 : 2 + half]]
        identities = operation.operands[2 + half :]
        extent = self.line(f"sub nsw {kind} {stop}, {start}")
        rest = self.line(f"srem {kind} {extent}, {lanes}")
        whole = self.line(f"sub nsw {kind} {stop}, {rest}")
        positive = self.line(f"icmp sgt {kind} {extent}, 0")
        whole = self.line(f"select i1 {positive}, {kind} {whole}, {kind} {start}")
        if not half and self.repeatable(body):
            # the last vector begins so far back that it ends with the loop: doing some elements twice is cheaper
            # than doing what is left one by one
            fits = self.line(f"icmp sge {kind} {extent}, {lanes}")
            whole = self.line(f"select i1 {fits}, {kind} {stop}, {kind} {start}")
            last = self.line(f"sub nsw {kind} {stop}, {lanes}")
        else:
            last = ""
        self.lanes = lanes
        wide_start = [self.splat(self.scalar_of(v), scalar_type(v.type), lanes) for v in identities]  # type: ignore[arg-type]
        outer, self.outermost = self.outermost, False
        vectors = self.plain_loop(body, start, whole, lanes, wide_start, lanes, linear=True, last=last)
        if half:
            initial = self.fold_lanes(operation.regions[1], vectors, initial, lanes)
        self.lanes = 0
        results = self.plain_loop(body, whole, stop, 1, initial, 0)
        self.outermost = outer
        for value, text in zip(operation.results, results, strict=True):
            self.environment[value] = Item(text)

    def repeatable(self, body: Block) -> bool:
        """Whether running the body again for an index changes nothing: it reads nothing that the kernel writes."""
        safe = {p.value for p in self.kernel.parameters if p.noalias and not p.writable}
        stack = [body]
        while stack:
            for operation in stack.pop().operations:
                if operation.opcode == "atomic" or (operation.opcode == "load" and operation.operands[0] not in safe):
                    return False
                stack.extend(operation.regions)
        return True

    def fold_lanes(self, combine: Block, vectors: list[str], initial: list[str], lanes: int) -> list[str]:
        """Fold vectors of accumulators in halves, then with the initial ones."""
        half = len(vectors)
        kinds = [scalar_type(v.type) for v in combine.parameters[:half]]  # type: ignore[arg-type]
        while lanes > 1:
            lanes //= 2
            parts: list[list[str]] = [[], []]
            for text, kind in zip(vectors, kinds, strict=True):
                for side in (0, 1):
                    if lanes == 1:
                        parts[side].append(self.line(f"extractelement <2 x {kind}> {text}, i64 {side}"))
                    else:
                        order = ", ".join(f"i32 {k + side * lanes}" for k in range(lanes))
                        source = wide(kind, 2 * lanes)
                        parts[side].append(
                            self.line(f"shufflevector {source} {text}, {source} poison, <{lanes} x i32> <{order}>")
                        )
            vectors = self.apply(combine, [*parts[0], *parts[1]], lanes if lanes > 1 else 0)
        return self.apply(combine, [*initial, *vectors], 0)

    def apply(self, block: Block, arguments: list[str], lanes: int) -> list[str]:
        """Emit a block's code for these arguments."""
        before, self.lanes = self.lanes, lanes
        for parameter, text in zip(block.parameters, arguments, strict=True):
            self.environment[parameter] = Item(text, lanes)
        results = [self.text_of(v, lanes) for v in self.block(block)]
        self.lanes = before
        return results

    def branch(self, operation: Operation) -> None:
        """An `if` on a condition that is the same for all lanes."""
        condition = self.scalar_of(operation.operands[0])
        number = self.count = self.count + 1
        labels = [f"then{number}", f"else{number}"]
        self.lines.append(f"  br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        ends: list[tuple[list[str], str]] = []
        for label, region in zip(labels, operation.regions, strict=True):
            self.start_label(label)
            texts = [self.text_of(v, self.lanes) for v in self.block(region)]
            ends.append((texts, self.label))
            self.lines.append(f"  br label %join{number}")
        self.start_label(f"join{number}")
        for k, value in enumerate(operation.results):
            kind = wide(scalar_type(value.type), self.lanes)  # type: ignore[arg-type]
            incoming = ", ".join(f"[ {texts[k]}, %{label} ]" for texts, label in ends)
            self.environment[value] = Item(self.line(f"phi {kind} {incoming}"), self.lanes)


_STRUCTURAL: dict[str, Callable[[Emitter, Operation], None]] = {
    "constant": Emitter.constant,
    "cast": Emitter.cast,
    "load": Emitter.load,
    "store": Emitter.store,
    "for": Emitter.loop,
    "if": Emitter.branch,
}
