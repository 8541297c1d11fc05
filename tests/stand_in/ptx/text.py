"""The parser of PTX text.

In: the text that LLVM generated. Out: `Module`s. Invariant: an unknown statement raises a `ValueError` with its text,
and is not ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEBUG = re.compile(r"\.section\s+\S+\s*\{[^}]*\}|^\s*\.(?:file|loc)\b[^\n]*$", re.MULTILINE)
_VARIABLE = re.compile(
    r"(?:\.(?:extern|visible|weak|common)\s+)*\.(?P<space>global|const|shared|local|param)\s+"
    r"(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<kind>[a-z]+\d+)\s+(?P<name>[\w$]+)(?P<length>(?:\[\d*\])*)\s*"
    r"(?:=\s*(?P<values>.*))?$",
    re.DOTALL,
)
_FUNCTION = re.compile(
    r"\.(?P<kind>entry|func)\s*(?:\((?P<out>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*(?:\((?P<into>[^)]*)\))?"
)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<early>\d+)\s+)?\.(?P<kind>[a-z]+\d+)\s+(?:\.ptr\s*(?:\.\w+\s*)?(?:\.align\s+\d+\s+)?)?"
    r"(?P<name>[\w$]+)(?:\[(?P<length>\d+)\])?"
)
_REGISTERS = re.compile(r"\.reg\s+\.(?P<kind>\w+)\s+(?P<names>.+)$", re.DOTALL)
_LABEL = re.compile(r"([\w$]+)\s*:(?!:)")
_GUARD = re.compile(r"@(!?)(%[\w$]+)\s+")
_IGNORED = re.compile(r"\.(pragma|loc|file|section|noreturn)\b")


@dataclass(frozen=True, slots=True)
class Variable:
    """A named variable: its memory space, size, alignment and initial value."""

    space: str
    name: str
    size: int
    align: int
    initial: bytes = b""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction: ``@guard name.part.part operand, operand``."""

    name: str
    parts: tuple[str, ...]
    operands: tuple[str, ...]
    guard: str = ""
    negated: bool = False
    text: str = ""


@dataclass(slots=True)
class Function:
    """A kernel, or a function that kernels call."""

    name: str
    is_kernel: bool
    parameters: dict[str, tuple[int, int]]  # name -> offset, bytes
    results: dict[str, tuple[int, int]]
    registers: dict[str, str] = field(default_factory=dict)  # name -> pred, b16, b32, b64
    variables: list[Variable] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)  # targets of indirect branches


@dataclass(slots=True)
class Module:
    """The contents of a PTX text."""

    variables: dict[str, Variable]
    functions: dict[str, Function]


def bytes_of(kind: str) -> int:
    """Return the size in bytes of a type such as ``b32``."""
    return int(re.sub(r"\D", "", kind)) // 8


def split(text: str) -> list[str]:
    """Split text at commas that are outside of brackets."""
    found, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "{[(") - (sign in ")]}")
        if sign == "," and not depth:
            found.append(text[start:at].strip())
            start = at + 1
    rest = text[start:].strip()
    return [*found, rest] if rest else found


def parse(text: str) -> Module:
    """Parse the PTX text of a module."""
    text = _DEBUG.sub("", _COMMENT.sub("", text))
    module = Module({}, {})
    at = 0
    while at < len(text):
        brace, end = text.find("{", at), text.find(";", at)
        if brace < 0 and end < 0:
            break
        if brace >= 0 and (end < 0 or brace < end) and _FUNCTION.search(text, at, brace):
            close = _closing(text, brace)
            function = _function(text[at:brace], text[brace + 1 : close])
            module.functions[function.name] = function
            at = close + 1
            continue
        if brace >= 0 and brace < end:
            end = text.index(";", _closing(text, brace))
        statement = re.sub(r"^\s*(\.(version|target|address_size)[^\n]*\n\s*)*", "", text[at:end]).strip()
        if statement and not _FUNCTION.search(statement):
            made = _variable(statement)
            module.variables[made.name] = made
        at = end + 1
    return module


def _closing(text: str, brace: int) -> int:
    depth = 0
    for at in range(brace, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at
    raise ValueError("a brace is not closed")


def _variable(statement: str) -> Variable:
    found = _VARIABLE.match(statement)
    if found is None:
        raise ValueError(f"not understood: {statement!r}")
    unit = bytes_of(found["kind"])
    count = 1
    for length in re.findall(r"\[(\d*)\]", found["length"]):
        count *= int(length or 0)
    initial = b""
    if found["values"]:
        values = split(found["values"].strip().strip("{}"))
        initial = b"".join((_number(value) & ((1 << 8 * unit) - 1)).to_bytes(unit, "little") for value in values)
    return Variable(found["space"], found["name"], unit * count, int(found["align"] or unit), initial)


def _number(text: str) -> int:
    if re.match(r"0[fFdD]", text):
        return int(text[2:], 16)
    return int(text.rstrip("U"), 0)


def _parameters(text: str | None) -> dict[str, tuple[int, int]]:
    """Return the offset and the size in bytes of each parameter."""
    found: dict[str, tuple[int, int]] = {}
    offset = 0
    for part in split(text or ""):
        one = _PARAMETER.match(part)
        if one is None:
            raise ValueError(f"not understood: {part!r}")
        size = bytes_of(one["kind"]) * int(one["length"] or 1)
        align = int(one["early"] or bytes_of(one["kind"]))
        offset = -(-offset // align) * align
        found[one["name"]] = offset, size
        offset += size
    return found


def _function(head: str, body: str) -> Function:
    found = _FUNCTION.search(head)
    assert found is not None
    function = Function(found["name"], found["kind"] == "entry", _parameters(found["into"]), _parameters(found["out"]))
    for statement in _statements(body):
        _read(function, statement)
    return function


def _statements(body: str) -> list[str]:
    """Split the body of a function into statements and labels. The braces around calls are dropped."""
    found = []
    for piece in re.split(r"(?<=;)|\n", body):
        piece = piece.strip()
        if piece in ("{", "}", ""):
            continue
        found.append(piece)
    # a statement may be longer than a line
    joined, waiting = [], ""
    for piece in found:
        waiting = f"{waiting} {piece}".strip() if waiting else piece
        waiting = re.sub(r"^[{}]\s*(?=\.|[a-z$@])", "", waiting)
        if waiting.endswith(";") or _LABEL.fullmatch(waiting):
            joined.append(waiting.rstrip(";").strip())
            waiting = ""
    if waiting:
        raise ValueError(f"not understood: {waiting!r}")
    return joined


def _read(function: Function, statement: str) -> None:
    label = _LABEL.match(statement)
    if label is not None:
        rest = statement[label.end() :].strip()
        if rest.startswith(".branchtargets"):
            function.tables[label[1]] = tuple(split(rest.removeprefix(".branchtargets")))
            return
        function.labels[label[1]] = len(function.code)
        if rest:
            _read(function, rest)
        return
    if _IGNORED.match(statement):
        return
    registers = _REGISTERS.match(statement)
    if registers is not None:
        for name in split(registers["names"]):
            many = re.fullmatch(r"(%[\w$]+)<(\d+)>", name)
            names = [f"{many[1]}{k}" for k in range(int(many[2]))] if many else [name]
            function.registers.update(dict.fromkeys(names, registers["kind"]))
        return
    if statement.startswith("."):
        function.variables.append(_variable(statement))
        return
    function.code.append(instruction(statement))


def instruction(statement: str) -> Instruction:
    """Parse one instruction."""
    guard = _GUARD.match(statement)
    rest = statement[guard.end() :] if guard else statement
    name, _, operands = rest.partition(" ") if " " in rest else rest.partition("\t")
    name, *parts = re.split(r"\.(?!:)", name.strip())
    return Instruction(
        name,
        tuple(parts),
        tuple(split(operands)),
        guard[2] if guard else "",
        bool(guard and guard[1]),
        statement,
    )
