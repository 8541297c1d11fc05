"""PTX of calls from a kernel to other code: printing, libdevice functions and inline PTX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.codegen.kernel_ir.operation import Operation, Value
from weft.codegen.llvm.emit import Emitter, Item, scalar_type


def text_global(emitter: Emitter, text: str) -> str:
    """Define a C string in global memory, and return its generic address."""
    data = text.encode() + b"\0"
    name = f"@text{emitter.fresh_number()}"
    shown = "".join(chr(c) if 32 <= c < 127 and chr(c) not in '"\\' else f"\\{c:02X}" for c in data)
    emitter.globals.append(f'{name} = internal addrspace(1) constant [{len(data)} x i8] c"{shown}", align 1')
    return f"addrspacecast (ptr addrspace(1) {name} to ptr)"


def print_values(emitter: Emitter, operation: Operation) -> None:
    """Emit a call to the driver's vprintf, which prints values.

    Each argument occupies 8 bytes of local memory.
    """
    pieces = [piece.replace("%", "%%") for piece in operation.attributes["pieces"]]
    formats = operation.attributes.get("formats", ()) or ("",) * len(operation.operands)
    line = pieces[0]
    arguments = emitter.alloca(f"[{max(len(formats), 1)} x i64]", 8)
    for k, (value, form) in enumerate(zip(operation.operands, formats, strict=True)):
        conversion, kind, text = _argument(emitter, value, form)
        line += conversion + pieces[k + 1]
        address = emitter.line(f"getelementptr inbounds i64, ptr {arguments}, i64 {k}")
        emitter.do(f"store {kind} {text}, ptr {address}, align 8")
    emitter.call("vprintf", "i32", [("ptr", text_global(emitter, line)), ("ptr", arguments)])


def _argument(emitter: Emitter, value: Value, form: str) -> tuple[str, str, str]:
    """Return the printf conversion for a value, and the LLVM type and text of the argument."""
    dtype, text = value.type, emitter.scalar_of(value)
    assert isinstance(dtype, np.dtype)
    if dtype.kind == "b" and not form:
        names = [f"ptr {text_global(emitter, name)}" for name in ("True", "False")]
        return "%s", "ptr", emitter.line(f"select i1 {text}, {names[0]}, {names[1]}")
    if dtype.kind == "f":
        wide = text if dtype.itemsize == 8 else emitter.line(f"fpext {scalar_type(dtype)} {text} to double")
        return f"%{form or 'g'}", "double", wide
    flags, letter = (form[:-1], form[-1]) if form else ("", "d")
    letter = "u" if letter in "di" and dtype.kind == "u" else letter
    if dtype.itemsize < 8:
        text = emitter.line(f"{'sext' if dtype.kind == 'i' else 'zext'} {scalar_type(dtype)} {text} to i64")
    return f"%{flags}ll{letter}", "i64", text


def external(emitter: Emitter, operation: Operation) -> None:
    """Emit a call to a function of libdevice or of linked code.

    Pointer arguments are passed as generic pointers.
    """
    symbol, foreign = operation.attributes["symbol"], "links" in operation.attributes
    arguments = []
    for value in operation.operands:
        kind, text = emitter.type_of(value.type), emitter.scalar_of(value)
        if kind.startswith("ptr addrspace"):
            kind, text = "ptr", emitter.line(f"addrspacecast {kind} {text} to ptr")
        arguments.append((kind, text))
    if foreign:  # it may contain barriers
        emitter.dialect.foreign.add(symbol)
        kinds = ", ".join(kind for kind, _ in arguments)
        result = emitter.type_of(operation.results[0].type) if operation.results else "void"
        emitter.declarations[symbol] = f"declare {result} @{symbol}({kinds}) convergent"
    else:
        emitter.dialect.symbols.add(symbol)
    if operation.results:
        emitter.set(operation, Item(emitter.call(symbol, emitter.type_of(operation.results[0].type), arguments)))
        return
    emitter.declare(symbol, "void", [kind for kind, _ in arguments])
    emitter.do(f"call void @{symbol}({', '.join(f'{kind} {text}' for kind, text in arguments)})")


def assembly(emitter: Emitter, operation: Operation) -> None:
    """Emit inline PTX with LLVM's placeholders and constraints.

    The code is marked as convergent and as having side effects: LLVM does not remove it, and does not move it under other
    conditions.
    """
    template, constraints = (_quoted(operation.attributes[key]) for key in ("template", "constraints"))
    kinds = [emitter.type_of(v.type) for v in operation.results]
    result = "void" if not kinds else kinds[0] if len(kinds) == 1 else "{ " + ", ".join(kinds) + " }"
    arguments = ", ".join(f"{emitter.type_of(v.type)} {emitter.scalar_of(v)}" for v in operation.operands)
    call = f'call {result} asm sideeffect "{template}", "{constraints}"({arguments}) convergent'
    if not kinds:
        emitter.do(call)
        return
    text = emitter.line(call)
    for k, value in enumerate(operation.results):
        part = text if len(kinds) == 1 else emitter.line(f"extractvalue {result} {text}, {k}")
        emitter.environment[value] = Item(part)


def _quoted(text: str) -> str:
    return "".join(
        c if 32 <= ord(c) < 127 and c not in '"\\' else "".join(f"\\{b:02X}" for b in c.encode()) for c in text
    )


OPERATIONS: dict[str, Callable[[Emitter, Operation], None]] = {
    "print": print_values,
    "external": external,
    "assembly": assembly,
}
