"""Translation of the byte code of several CPython versions to one smaller instruction set.

In: a code object. Out: a list of `CodeInstruction` with their successors. The tables below map each opcode to its
instructions. Invariant: two code objects with the same instructions on every path compute the same results. `NOP` and
bookkeeping opcodes of the interpreter have no instruction. Unconditional jumps have one, which is not part of a path.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any


class Unreadable(Exception):
    """Raised for byte code that cannot be converted to a syntax tree."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.message, self.line = message, line


@dataclass(slots=True, eq=False)
class CodeInstruction:
    """An instruction with its name, argument, source location, and the indices of its successors.

    A branch continues at ``after[0]`` if the value on the stack is true. `next`, the step of a loop, continues there if
    the iterator has an item.
    """

    name: str
    argument: Any
    where: Any  # dis.Positions
    after: list[int] = field(default_factory=list)


# Opcodes without an instruction: they prepare the next opcode, or are used by the interpreter only.
SILENT = frozenset(
    "CACHE NOP RESUME PRECALL MAKE_CELL COPY_FREE_VARS TO_BOOL END_FOR NOT_TAKEN EXTENDED_ARG RETURN_GENERATOR".split()
)

# Opcodes whose arguments `dis` decodes -> the instructions. An opcode with two instructions has a pair as argument.
TRANSLATIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_BORROW LOAD_DEREF LOAD_CLOSURE".split(), ("load",)),
    **dict.fromkeys(("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"), ("load", "load")),
    **dict.fromkeys(("STORE_FAST", "STORE_DEREF"), ("store",)),
    **dict.fromkeys(("DELETE_FAST", "DELETE_DEREF"), ("delete",)),
    "STORE_FAST_LOAD_FAST": ("store", "load"),
    "STORE_FAST_STORE_FAST": ("store", "store"),
    "PUSH_NULL": ("null",),
    "STORE_GLOBAL": ("store_global",),
    **dict.fromkeys(("LOAD_CONST", "LOAD_SMALL_INT", "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL"), ("constant",)),
    "STORE_ATTR": ("store_attribute",),
    "DELETE_ATTR": ("delete_attribute",),
    "BINARY_SUBSCR": ("subscript",),
    "STORE_SUBSCR": ("store_subscript",),
    "DELETE_SUBSCR": ("delete_subscript",),
    **{f"UNARY_{name.upper()}": (name,) for name in ("negative", "positive", "invert", "not")},
    "COMPARE_OP": ("compare",),
    **{f"BUILD_{name.upper()}": (name,) for name in ("tuple", "list", "set", "map", "string", "slice")},
    "LIST_EXTEND": ("extend",),
    "LIST_TO_TUPLE": ("list_to_tuple",),
    "UNPACK_SEQUENCE": ("unpack",),
    "COPY": ("copy",),
    "SWAP": ("swap",),
    **dict.fromkeys(("POP_TOP", "POP_ITER"), ("pop",)),
    "GET_ITER": ("iterator",),
    "FOR_ITER": ("next",),
    "RETURN_VALUE": ("return",),
    "RAISE_VARARGS": ("raise",),
    "LOAD_ASSERTION_ERROR": ("assertion",),
    "SET_FUNCTION_ATTRIBUTE": ("function_attribute",),
    "FORMAT_SIMPLE": ("format",),
    "YIELD_VALUE": ("yield",),
    "RERAISE": ("raise_again",),
}

# Conditional jumps: the test before the branch, and whether the jump is taken if the test is true.
BRANCHES: dict[str, tuple[str, bool]] = {
    "POP_JUMP_IF_TRUE": ("", True),
    "POP_JUMP_IF_FALSE": ("", False),
    "POP_JUMP_IF_NONE": ("none", True),
    "POP_JUMP_IF_NOT_NONE": ("none", False),
    "JUMP_IF_TRUE_OR_POP": ("keep", True),
    "JUMP_IF_FALSE_OR_POP": ("keep", False),
}

JUMPS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"))
ENDS = frozenset(("return", "raise", "raise_again"))

# Opcodes that start an unsupported construct -> the name of the construct.
REFUSED: dict[str, str] = {
    **dict.fromkeys(("BEFORE_WITH", "LOAD_SPECIAL", "BEFORE_ASYNC_WITH"), "`with`"),
    **dict.fromkeys(("IMPORT_NAME", "IMPORT_FROM"), "`import`"),
    **dict.fromkeys(("LOAD_BUILD_CLASS", "LOAD_CLASSDEREF", "LOAD_LOCALS"), "`class`"),
    **dict.fromkeys(("MATCH_CLASS", "MATCH_KEYS", "MATCH_MAPPING", "MATCH_SEQUENCE", "GET_LEN"), "`match`"),
    **dict.fromkeys(("SETUP_FINALLY", "PUSH_EXC_INFO"), "`try`"),
    **dict.fromkeys(("DICT_MERGE", "DICT_UPDATE"), "**"),
    **dict.fromkeys(("GET_AWAITABLE", "GET_AITER", "GET_ANEXT"), "`await`"),
    **dict.fromkeys(("LOAD_FAST_AND_CLEAR", "LIST_APPEND", "SET_ADD", "MAP_ADD"), "a comprehension"),
    "LOAD_SUPER_ATTR": "`super`",
    "UNPACK_EX": "a starred target",
    "SEND": "`yield from`",
}

_INTRINSICS = {3: "stop_iteration", 5: "positive", 6: "list_to_tuple"}  # of CALL_INTRINSIC_1


def decode(code: CodeType, *, compared: bool = False) -> list[CodeInstruction]:
    """Return the instructions of a code object, or raise Unreadable if its byte code is not supported.

    If the instructions are only `compared`, an unsupported opcode becomes an instruction with the name of the opcode.
    """
    found: list[CodeInstruction] = []
    starts: dict[int, int] = {}
    # number of a branch or `next` -> the target's offset, and whether the jump is taken if the test is true
    jumps: dict[int, tuple[int, bool]] = {}
    # for each unconditional jump: its number, and the target's offset
    leaps: list[tuple[int, int]] = []
    names: Any = ()
    previous = ""
    for row in dis.get_instructions(code):
        starts[row.offset] = len(found)
        opcode = row.opname.replace("_FORWARD_IF", "_IF").replace("_BACKWARD_IF", "_IF")
        pops_iterator = previous == "END_FOR" and sys.version_info >= (3, 13)
        if opcode != "CACHE" and opcode != "EXTENDED_ARG":
            previous = opcode
        if opcode in SILENT or (pops_iterator and opcode in ("POP_TOP", "POP_ITER")):
            continue
        if opcode == "KW_NAMES":
            names = code.co_consts[row.arg or 0]
        elif opcode in JUMPS:
            leaps.append((len(found), row.argval))
            found.append(CodeInstruction("jump", None, row.positions))
        elif opcode in BRANCHES:
            _branch(found, jumps, row, *BRANCHES[opcode])
        else:
            try:
                translated = list(_plain(row, opcode, names, found))
            except Unreadable:
                if not compared:
                    raise
                translated = [(opcode, row.argval)]
            for name, argument in translated:
                if name == "next":
                    jumps[len(found)], argument = (argument, False), None
                found.append(CodeInstruction(name, argument, row.positions))
            if opcode == "CALL":
                names = ()
    if code.co_flags & 0x20 and found and found[0].name == "pop":
        found[0].name = "jump"  # a generator drops the first value that it is sent
    _link(found, starts, jumps, dict(leaps))
    return found


def _branch(found: list[CodeInstruction], jumps: dict[int, tuple[int, bool]], row: Any, kind: str, taken: bool) -> None:
    where = row.positions
    if kind == "none":
        found += [CodeInstruction("constant", None, where), CodeInstruction("compare", "is", where)]
    elif kind == "keep":
        found.append(CodeInstruction("copy", 1, where))
    if not row.is_jump_target and found and found[-1].argument in ("is not", "not in") and found[-1].name == "compare":
        # Negated comparisons are normalized, as CPython's own compiler does.
        found[-1].argument = {"is not": "is", "not in": "in"}[found[-1].argument]
        taken = not taken
    jumps[len(found)] = row.argval, taken
    found.append(CodeInstruction("branch", None, where))
    if kind == "keep":
        found.append(CodeInstruction("pop", None, where))


def _plain(row: Any, opcode: str, names: Any, found: list[CodeInstruction]) -> Iterator[tuple[str, Any]]:
    """Translate an opcode that is not a jump. Yield a pair (name, argument) for each instruction that replaces it."""
    if opcode in TRANSLATIONS:
        instructions = TRANSLATIONS[opcode]
        yield from zip(instructions, row.argval if len(instructions) == 2 else (row.argval,), strict=True)
        return
    match opcode:
        case "RETURN_CONST":
            yield from (("constant", row.argval), ("return", None))
        case "LOAD_GLOBAL":
            parts = [("load_global", row.argval), ("null", None)][: 1 + (row.arg & 1)]
            yield from parts if sys.version_info >= (3, 13) else reversed(parts)
        case "LOAD_METHOD" | "LOAD_ATTR":
            yield "attribute", row.argval
            if opcode == "LOAD_METHOD" or (sys.version_info >= (3, 12) and row.arg & 1):
                # Up to Python 3.12, the empty slot of a method and that of a function are at different positions
                # (`PUSH_NULL`).
                yield "null", None if sys.version_info >= (3, 13) else "method"
        case "BINARY_OP":
            yield ("subscript", None) if row.argrepr == "[]" else ("binary", row.argrepr)
        case "IS_OP":
            yield "compare", "is not" if row.arg else "is"
        case "CONTAINS_OP":
            yield "compare", "not in" if row.arg else "in"
        case "BINARY_SLICE":
            yield from (("slice", 2), ("subscript", None))
        case "STORE_SLICE":
            yield from (("slice", 2), ("store_subscript", None))
        case "CALL":
            yield "call", (row.arg, tuple(names))
        case "CALL_KW":
            yield "call", (row.arg, found.pop().argument)
        case "CALL_FUNCTION_EX":
            # Since Python 3.14, there is always a keywords operand, which may be NULL.
            keywords = found.pop().name != "null" if sys.version_info >= (3, 14) else row.arg & 1
            if keywords:
                raise Unreadable("** is not read", row.positions.lineno)
            yield "call_star", None
        case "CALL_INTRINSIC_1" if row.arg in _INTRINSICS:
            yield _INTRINSICS[row.arg], None
        case "LIST_APPEND" if row.arg == 1:  # `[*x, y]`
            yield "append", None
        case "FORMAT_VALUE":
            yield "format", (row.arg & 3, bool(row.arg & 4))
        case "FORMAT_WITH_SPEC":
            yield "format", (0, True)
        case "CONVERT_VALUE":
            yield "convert", row.arg
        case "BUILD_CONST_KEY_MAP":
            yield "key_map", found.pop().argument
        case "MAKE_FUNCTION":
            yield "function", (found.pop().argument, row.arg or 0)
        case "LOAD_COMMON_CONSTANT" if row.argrepr == "NotImplementedError":  # in a function that returns annotations
            yield "load_global", row.argrepr
        case "LOAD_COMMON_CONSTANT" if row.argrepr == "AssertionError":
            yield "assertion", None
        case _:
            what = REFUSED.get(opcode, f"the opcode {opcode}")
            raise Unreadable(f"{what} is not read", row.positions.lineno)


def _link(
    found: list[CodeInstruction], starts: dict[int, int], jumps: dict[int, tuple[int, bool]], leaps: dict[int, int]
) -> None:
    """Set the successors of all instructions. Skip unconditional jumps: the target of a jump is the successor, not the jump itself."""

    def behind(number: int) -> int:
        seen = set()
        while number < len(found) and found[number].name == "jump" and number not in seen:
            seen.add(number)
            number = starts[leaps[number]] if number in leaps else number + 1
        return number

    for number, instruction in enumerate(found):
        following = behind(number + 1)
        if number in jumps:
            target, taken = jumps[number]
            there = behind(starts[target])
            instruction.after = [there, following] if taken else [following, there]
        elif instruction.name == "jump":
            instruction.after = [behind(number)]
        elif instruction.name not in ENDS:
            instruction.after = [following]
