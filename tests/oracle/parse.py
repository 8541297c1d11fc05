"""The parser of kernel IR's text form.

It is the inverse of `print_kernel`, and raises `ParseError` for invalid text.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np

from weft.codegen.kernel_ir.dtypes import bfloat16, dtype_kind
from weft.codegen.kernel_ir.operation import Block, Function, Kernel, Operation, Parameter, Pointer, Type, Value
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.table import SCHEDULES


def read_constant(text: str, dtype: np.dtype) -> Any:
    """Parse a constant that `show_constant` wrote, and return a NumPy scalar. Raises ValueError for other text."""
    if dtype.kind == "c":
        parts = text.split(",")
        if len(parts) != 2:
            raise ValueError(f"{text!r} is no complex number")
        kind = np.dtype(f"f{dtype.itemsize // 2}")
        # as bytes, since arithmetic on the parts could lose the bits of a NaN
        return np.array([read_constant(part, kind) for part in parts]).view(dtype)[0]
    if dtype.kind == "b":
        if text not in ("True", "False"):
            raise ValueError(f"{text!r} is no bool")
        return np.bool_(text == "True")
    if dtype_kind(dtype) == "f" and text.startswith("0x"):
        return np.frombuffer(int(text, 16).to_bytes(dtype.itemsize, "little"), dtype)[0]
    try:
        return dtype.type(int(text)) if dtype.kind in "iu" else dtype.type(text)
    except OverflowError:
        raise ValueError(f"{text} is out of range for {dtype}") from None


_NAMED = {np.dtype(code).name: np.dtype(code) for code in "?bBhHiIlLqQefdFD"}
_TYPE = r"\w+(?:<\w+(?:,\w+)?>)?"
_VALUE = re.compile(rf"%(\w+): ({_TYPE})")
_VALUES = re.compile(rf"(?:%\w+: {_TYPE}(?:, %\w+: {_TYPE})*)?")
_USES = re.compile(r"(?:%\w+(?:, %\w+)*)?")
_OPERATION = re.compile(r"(?:(?P<results>%[^=]*?) = )?(?P<opcode>\w+)\((?P<operands>[^)]*)\)(?P<rest>.*)")
_ITEM = r'(?:"(?:[^"\\]|\\.)*"|[^\s()"{}]+)'
_GIVEN = rf"(?:\((?:{_ITEM}(?: {_ITEM})*)?\)|{_ITEM})"
_ATTRIBUTE = re.compile(rf" (\w+)=({_GIVEN})")
_ATTRIBUTES = re.compile(rf"(?: \w+={_GIVEN})*")
_OPENING = re.compile(r" \{ \[([^\]]*)\]")
_NEXT = re.compile(r"\} and \{ \[([^\]]*)\]")
_CLOSING = re.compile(r"\} -> \[([^\]]*)\]")
_FUNCTION = re.compile(r"function (\w+)\(([^)]*)\) -> \(([^)]*)\) \{")
_PARAMETER = re.compile(rf"  %\w+: {_TYPE}(?: mut)?(?: noalias)?(?: align=\d+)?(?: value=\d+)?")
_POINTER = re.compile(r"ptr<(\w+)(?:,(shared|local|constant|parameter))?>")
_HEAD = re.compile(r"kernel (\w+) index=(int32|int64) level=(logical|threaded)(.*) \(")


class ParseError(ValueError):
    """Raised for text that is not a kernel. The message names the line and the column."""


def _read_attribute(text: str) -> Any:
    if text.startswith("("):
        return tuple(_read_attribute(part) for part in re.findall(_ITEM, text[1:-1]))
    if text.startswith('"'):
        return json.loads(text)
    if text in ("True", "False"):
        return text == "True"
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return text


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.at = 0
        self.values: dict[str, Value] = {}

    def fail(self, what: str, part: str = "") -> NoReturn:
        line = self.lines[self.at - 1] if self.at else ""
        part = part.strip()
        column = line.find(part) if part and part in line else len(line) - len(line.lstrip())
        raise ParseError(f"line {self.at}, column {column + 1}: {what}")

    def next(self) -> str:
        if self.at >= len(self.lines):
            self.fail("the text ends inside the kernel")
        self.at += 1
        return self.lines[self.at - 1]

    def type(self, text: str) -> Type:
        pointer = _POINTER.fullmatch(text)
        name = pointer[1] if pointer else text
        dtype = bfloat16() if name == "bfloat16" else _NAMED.get(name)
        if dtype is None:
            self.fail(f"{text} is no type", text)
        return Pointer(dtype, pointer[2] or "global") if pointer else dtype  # type: ignore[arg-type]

    def define(self, text: str) -> tuple[Value, ...]:
        if not _VALUES.fullmatch(text):
            self.fail(f"expected '%name: type', not {text!r}", text)
        found = []
        for name, kind in _VALUE.findall(text):
            if name in self.values:
                self.fail(f"%{name} is defined twice", f"%{name}")
            found.append(Value(name, self.type(kind)))
            self.values[name] = found[-1]
        return tuple(found)

    def use(self, text: str) -> tuple[Value, ...]:
        if not _USES.fullmatch(text):
            self.fail(f"expected values, not {text!r}", text)
        names = [part.strip()[1:] for part in text.split(",") if part.strip()]
        for name in names:
            if name not in self.values:
                self.fail(f"%{name} is not defined before", f"%{name}")
        return tuple(self.values[name] for name in names)

    def attributes(self, text: str) -> dict[str, Any]:
        if not _ATTRIBUTES.fullmatch(text):
            self.fail(f"expected attributes, not {text!r}", text)
        return {key: _read_attribute(value) for key, value in _ATTRIBUTE.findall(text)}

    def elements(self, text: str, type: Type) -> dict[str, Any]:
        """Return the attributes of a ``constant`` or ``table`` operation as a dict. Convert the elements to the dtype of the constant or table."""
        found = self.attributes(text)
        dtype = type.dtype if isinstance(type, Pointer) else type
        for key, value in _ATTRIBUTE.findall(text):
            try:
                if key == "value":
                    found[key] = read_constant(value, dtype)
                elif key == "values":
                    found[key] = np.array([read_constant(v, dtype) for v in value[1:-1].split()], dtype)
            except ValueError as error:
                self.fail(str(error), value)
        return found

    def block(self, block: Block) -> str:
        """Parse operations up to the line that closes the block, and return this line."""
        while not (line := self.next().strip()).startswith("}"):
            match = _OPERATION.fullmatch(line)
            if match is None:
                self.fail(f"no operation: {line!r}")
            operands = self.use(match["operands"])
            rest, opcode = match["rest"], match["opcode"]
            given = _ATTRIBUTES.match(rest)
            brace = given.end() if given else 0
            if not rest.startswith(" {", brace):
                results = self.define(match["results"] or "")
                with_elements = opcode in ("constant", "table") and results
                attributes = self.elements(rest, results[0].type) if with_elements else self.attributes(rest)
                block.operations.append(Operation(opcode, operands, results, attributes))
                continue
            opening = _OPENING.fullmatch(rest[brace:])
            if opening is None or match["results"]:
                self.fail("a region opens with '{ [parameters]', and results follow it", rest[brace:])
            attributes = self.attributes(rest[:brace])
            if opcode == "for":
                attributes.setdefault("combine", ())
            regions, results = self.regions(opening[1])
            block.operations.append(Operation(opcode, operands, results, attributes, regions))
        return line

    def regions(self, parameters: str) -> tuple[tuple[Block, ...], tuple[Value, ...]]:
        """Parse the regions of an operation, and return the regions and the operation's results.

        The line that opens the first region has been read. It contains `parameters`.
        """
        regions = [Block(self.define(parameters))]
        while True:
            closing = self.block(regions[-1])
            if following := _NEXT.fullmatch(closing):
                regions.append(Block(self.define(following[1])))
            elif end := _CLOSING.fullmatch(closing):
                return tuple(regions), self.define(end[1])
            else:
                self.fail("a region closes with '} -> [results]'")

    def function(self) -> Function:
        """Parse the definition of a function. In the text of a kernel, such definitions are written after the kernel itself."""
        head = _FUNCTION.fullmatch(self.next())
        if head is None:
            self.fail("text after the kernel that is no 'function NAME(%name: type) -> (type) {'")
        function = Function(head[1], self.define(head[2]), Block(), tuple(map(self.type, re.findall(_TYPE, head[3]))))
        if self.block(function.body) != "}":
            self.fail("expected '}'")
        return function


def parse_kernel(text: str) -> Kernel:
    """Parse a kernel that `print_kernel` wrote.

    Raises ParseError with the line and the column for other text.
    """
    parser = _Parser(text)
    head = _HEAD.fullmatch(parser.next())
    if head is None:
        parser.fail("expected 'kernel NAME index=int32|int64 level=logical|threaded ('")
    kernel = Kernel(head[1], [], Block(), np.dtype(head[2]), head[3])  # type: ignore[arg-type]
    kernel.attributes = given = parser.attributes(head[4])
    if "schedule" in given:
        named = [vars(each).get(given["schedule"]) for each in SCHEDULES]
        decision = next((each for each in named if isinstance(each, type) and issubclass(each, Decision)), None)
        if decision is None:
            parser.fail(f"{given['schedule']} is no schedule", f"schedule={given['schedule']}")
        own = {each.name: given.pop(each.name) for each in fields(decision) if each.name in given}
        given["schedule"] = decision(**own)
    while (line := parser.next()) != ") {":
        if not _PARAMETER.fullmatch(line):
            parser.fail("expected '  %name: type [mut] [noalias] [align=N] [value=N]' or ') {'")
        declared, *flags = line[2:].replace(": ", ":").split(" ")
        (value,) = parser.define(declared.replace(":", ": "))
        align, given = (
            next((int(flag[6:]) for flag in flags if flag.startswith(name)), least)
            for name, least in (("align=", 1), ("value=", 0))
        )
        kernel.parameters.append(Parameter(value, "mut" in flags, "noalias" in flags, align, given))
    if parser.block(kernel.body) != "}":
        parser.fail("expected '}'")
    while any(line.strip() for line in parser.lines[parser.at :]):
        kernel.functions.append(parser.function())
    return kernel
