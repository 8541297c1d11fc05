"""LLVM text for GPUs: printing, external functions and inline PTX."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from weft.codegen.kernel_ir.operation import Operation, Value
from weft.codegen.llvm.emit import Emitter, scalar_type
from weft.codegen.llvm.emit_text import escaped, struct_type


def text_global(emitter: Emitter, text: str) -> str:
    """Define a C string in global memory, and return its generic address."""
    data = text.encode() + b"\0"
    name = f"@text{emitter.fresh_number()}"
    emitter.globals.append(f'{name} = internal addrspace(1) constant [{len(data)} x i8] c"{escaped(data)}", align 1')
    return f"addrspacecast (ptr addrspace(1) {name} to ptr)"


def print_values(emitter: Emitter, operation: Operation) -> None:
    """Emit a call to the driver's vprintf. Each argument occupies 8 bytes of local memory."""
    pieces = [piece.replace("%", "%%") for piece in operation.attributes["pieces"]]
    formats = operation.attributes.get("formats", ()) or ("",) * len(operation.operands)
    line = pieces[0]
    passed: list[tuple[str, str]] = []
    for piece, value, form in zip(pieces[1:], operation.operands, formats, strict=True):
        conversion, *given = _arguments(emitter, value, form)
        line += conversion + piece
        passed += given
    arguments = emitter.alloca(f"[{max(len(passed), 1)} x i64]", 8)
    for k, (kind, text) in enumerate(passed):
        address = emitter.line(f"getelementptr inbounds i64, ptr {arguments}, i64 {k}")
        emitter.do(f"store {kind} {text}, ptr {address}, align 8")
    emitter.call("vprintf", "i32", [("ptr", text_global(emitter, line)), ("ptr", arguments)])


def _arguments(emitter: Emitter, value: Value, form: str) -> Any:
    """Return a printf conversion for a value, followed by the conversion's arguments (LLVM types and operands)."""
    dtype, text = value.dtype, emitter.scalar_of(value)
    if dtype.kind == "b" and not form:
        names = [f"ptr {text_global(emitter, name)}" for name in ("True", "False")]
        return "%s", ("ptr", emitter.line(f"select i1 {text}, {names[0]}, {names[1]}"))
    if dtype.kind == "f":
        wide = text if dtype.itemsize == 8 else emitter.line(f"fpext {scalar_type(dtype)} {text} to double")
        return f"%{form or 'g'}", ("double", wide)
    flags, letter = (form[:-1], form[-1]) if form else ("", "d")
    letter = "u" if letter in "di" and dtype.kind == "u" else letter
    if dtype.itemsize < 8:
        text = emitter.line(f"{'sext' if dtype.kind == 'i' else 'zext'} {scalar_type(dtype)} {text} to i64")
    digits = re.fullmatch(r"([+ ]?)(#?)(0?)(\d*)[xXo]", form)
    if digits is not None and (dtype.kind == "i" or digits[1] or digits[2]):
        return _digits(emitter, text, dtype.kind == "i", letter, *digits.groups())
    return f"%{flags}ll{letter}", ("i64", text)


def _digits(
    emitter: Emitter, number: str, signed: bool, letter: str, plus: str, base: str, zeros: str, width: str
) -> Any:
    """Return the printf conversion and the arguments for a hexadecimal or octal number.

    The number may have a sign or a base prefix. The printed text is the one that Python prints. C's printf would show
    the bits of a negative number instead of a sign. The sign and the base prefix form one string, `head`.
    """
    prefix = base and {"x": "0x", "X": "0X", "o": "0o"}[letter]
    heads = ("-" + prefix, plus + prefix)
    negative = emitter.line(f"icmp slt i64 {number}, 0") if signed else "false"
    opposite = emitter.line(f"sub i64 0, {number}")
    number = emitter.line(f"select i1 {negative}, i64 {opposite}, i64 {number}")
    texts = [f"ptr {text_global(emitter, head)}" for head in heads]
    head = "ptr", emitter.line(f"select i1 {negative}, {texts[0]}, {texts[1]}")
    if not width:
        return f"%s%ll{letter}", head, ("i64", number)
    if zeros:
        fills = [max(int(width) - len(head), 0) for head in heads]
        fill = emitter.line(f"select i1 {negative}, i32 {fills[0]}, i32 {fills[1]}")
        return f"%s%0*ll{letter}", head, ("i32", fill), ("i64", number)
    nonzero = emitter.line(f"or i64 {number}, 1")
    empty = emitter.call("llvm.ctlz.i64", "i64", [("i64", nonzero), ("i1", "true")])
    bits = 3 if letter == "o" else 4
    count = emitter.line(f"udiv i64 {emitter.line(f'sub i64 {63 + bits}, {empty}')}, {bits}")
    left = emitter.line(f"trunc i64 {emitter.line(f'sub i64 {width}, {count}')} to i32")
    room = emitter.call("llvm.smax.i32", "i32", [("i32", left), ("i32", "0")])
    return f"%*s%ll{letter}", ("i32", room), head, ("i64", number)


def external(emitter: Emitter, operation: Operation) -> None:
    """Emit a call to a function of libdevice or of linked code. Pointer arguments become generic pointers."""
    symbol = operation.attributes["symbol"]
    arguments = []
    for value in operation.operands:
        kind, text = emitter.type_of(value.type), emitter.scalar_of(value)
        if kind.startswith("ptr addrspace"):
            kind, text = "ptr", emitter.line(f"addrspacecast {kind} {text} to ptr")
        arguments.append((kind, text))
    result = struct_type([emitter.type_of(v.type) for v in operation.results])
    if "links" in operation.attributes:  # the function may contain barriers
        emitter.dialect.foreign.add(symbol)
        kinds = ", ".join(kind for kind, _ in arguments)
        emitter.declarations[symbol] = f"declare {result} @{symbol}({kinds}) convergent"
    else:
        emitter.dialect.symbols.add(symbol)
    emitter.set_results(operation, result, emitter.call(symbol, result, arguments))


def assembly(emitter: Emitter, operation: Operation) -> None:
    """Emit inline PTX with LLVM's placeholders and constraints.

    The code is marked as convergent and as having side effects: LLVM does not remove it, and does not move it under
    other conditions.
    """
    template, constraints = (escaped(operation.attributes[key].encode()) for key in ("template", "constraints"))
    result = struct_type([emitter.type_of(v.type) for v in operation.results])
    arguments = ", ".join(f"{emitter.type_of(v.type)} {emitter.scalar_of(v)}" for v in operation.operands)
    call = f'call {result} asm sideeffect "{template}", "{constraints}"({arguments}) convergent'
    emitter.set_results(operation, result, emitter.append(result, call))


OPERATIONS: dict[str, Callable[[Emitter, Operation], None]] = {
    "print": print_values,
    "external": external,
    "assembly": assembly,
}
