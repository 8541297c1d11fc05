"""The text form of kernel IR: printed, and parsed back to the same kernel.

Values are numbered in program order when printed, so that the text (and everything keyed by it) does
not depend on how a kernel was built.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Parameter, Pointer, Type, Value


def show_type(type: Type) -> str:
    """``float32``, ``ptr<float32>`` or ``ptr<float32,shared>``."""
    if isinstance(type, Pointer):
        return f"ptr<{type.dtype.name}{'' if type.space == 'global' else ',' + type.space}>"
    return type.name


def _show_attribute(value: Any) -> str:
    if isinstance(value, np.generic):
        return f"{value.dtype.name}:{value.tobytes().hex()}"
    if isinstance(value, tuple):
        return "(" + " ".join(str(v) for v in value) + ")"
    return str(value)


def _is_empty(value: Any) -> bool:
    return isinstance(value, tuple) and not value


class _Printer:
    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []

    def define(self, value: Value) -> str:
        name = self.names[value] = str(len(self.names))
        return f"%{name}: {show_type(value.type)}"

    def use(self, value: Value) -> str:
        return "%" + self.names[value]

    def block(self, block: Block, depth: int) -> None:
        indent = "  " * depth
        for o in block.operations:
            operands = ", ".join(self.use(v) for v in o.operands)
            attributes = "".join(
                f" {k}={_show_attribute(v)}" for k, v in sorted(o.attributes.items()) if not _is_empty(v)
            )
            results = ", ".join(self.define(v) for v in o.results) if not o.regions else ""
            head = f"{indent}{results + ' = ' if results else ''}{o.opcode}({operands}){attributes}"
            if not o.regions:
                self.lines.append(head)
                continue
            for k, region in enumerate(o.regions):
                parameters = ", ".join(self.define(v) for v in region.parameters)
                self.lines.append(f"{head if k == 0 else indent + '} and'} {{ [{parameters}]")
                self.block(region, depth + 1)
            results = ", ".join(self.define(v) for v in o.results)
            self.lines.append(f"{indent}}} -> [{results}]")


def print_kernel(kernel: Kernel) -> str:
    """The kernel's text."""
    printer = _Printer()
    parameters = []
    for p in kernel.parameters:
        flags = "".join(f" {flag}" for flag, on in (("mut", p.writable), ("noalias", p.noalias)) if on)
        align = f" align={p.align}" if p.align != 1 else ""
        parameters.append(f"  {printer.define(p.value)}{flags}{align}\n")
    attributes = "".join(f" {k}={_show_attribute(v)}" for k, v in sorted(kernel.attributes.items()))
    printer.block(kernel.body, 1)
    head = f"kernel {kernel.name} index={kernel.index_dtype.name} level={kernel.level}{attributes}"
    return f"{head} (\n{''.join(parameters)}) {{\n" + "\n".join(printer.lines) + "\n}\n"


# -- parsing ------------------------------------------------------------------------------------

_VALUE = re.compile(r"%(\w+): ([\w<>,]+)")
_OPERATION = re.compile(r"(?:(?P<results>%[^=]*?) = )?(?P<opcode>\w+)\((?P<operands>[^)]*)\)(?P<rest>.*)")
_ATTRIBUTE = re.compile(r" (\w+)=(\([^)]*\)|\S+)")


class ParseError(ValueError):
    """The text is no kernel; the message names the line."""


def _read_type(text: str) -> Type:
    if text.startswith("ptr<"):
        name, _, space = text[4:-1].partition(",")
        return Pointer(np.dtype(name), space or "global")  # type: ignore[arg-type]
    return np.dtype(text)


def _read_attribute(text: str) -> Any:
    if text.startswith("("):
        return tuple(_read_attribute(part) for part in text[1:-1].split())
    if text in ("True", "False"):
        return text == "True"
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    name, colon, digits = text.partition(":")
    if colon:
        return np.frombuffer(bytes.fromhex(digits), np.dtype(name))[0]
    return text


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.at = 0
        self.values: dict[str, Value] = {}

    def next(self) -> str:
        if self.at >= len(self.lines):
            raise ParseError(f"line {self.at}: the text ends inside the kernel")
        self.at += 1
        return self.lines[self.at - 1]

    def define(self, text: str) -> tuple[Value, ...]:
        found = []
        for name, kind in _VALUE.findall(text):
            try:
                value = self.values[name] = Value(name, _read_type(kind))
            except TypeError as error:
                raise ParseError(f"line {self.at}: {error}") from None
            found.append(value)
        return tuple(found)

    def use(self, text: str) -> tuple[Value, ...]:
        names = [part.strip().removeprefix("%") for part in text.split(",") if part.strip()]
        missing = [name for name in names if name not in self.values]
        if missing:
            raise ParseError(f"line {self.at}: %{missing[0]} is not defined before")
        return tuple(self.values[name] for name in names)

    def block(self, block: Block) -> str:
        """Operations up to a closing line, which is returned."""
        while True:
            line = self.next().strip()
            if line.startswith("}"):
                return line
            match = _OPERATION.fullmatch(line)
            if match is None:
                raise ParseError(f"line {self.at}: no operation: {line!r}")
            operands = self.use(match["operands"])
            rest = match["rest"]
            attributes = {k: _read_attribute(v) for k, v in _ATTRIBUTE.findall(rest.partition(" {")[0])}
            if attributes.get("combine") is None and match["opcode"] == "for":
                attributes["combine"] = ()
            if " {" not in rest:
                results = self.define(match["results"] or "")
                block.operations.append(Operation(match["opcode"], operands, results, attributes))
                continue
            regions = []
            opening = rest.partition(" {")[2]
            while True:
                region = Block(self.define(opening))
                regions.append(region)
                closing = self.block(region)
                if closing.startswith("} and {"):
                    opening = closing
                    continue
                break
            results = self.define(closing)
            block.operations.append(Operation(match["opcode"], operands, results, attributes, tuple(regions)))


_HEAD = re.compile(r"kernel (\w+) index=(\w+) level=(\w+)(.*) \(")


def parse_kernel(text: str) -> Kernel:
    """The kernel that `print_kernel` made this text of. Raises ParseError naming the line."""
    parser = _Parser(text)
    head = _HEAD.fullmatch(parser.next())
    if head is None:
        raise ParseError("line 1: expected 'kernel NAME index=... level=... ('")
    kernel = Kernel(head[1], [], Block(), np.dtype(head[2]), head[3])  # type: ignore[arg-type]
    kernel.attributes = {k: _read_attribute(v) for k, v in _ATTRIBUTE.findall(head[4])}
    while not (line := parser.next()).startswith(")"):
        (value,) = parser.define(line)
        words = line.split()
        align = next((int(w[6:]) for w in words if w.startswith("align=")), 1)
        kernel.parameters.append(Parameter(value, "mut" in words, "noalias" in words, align))
    parser.block(kernel.body)
    return kernel
