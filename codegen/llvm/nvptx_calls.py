"""PTX of calls from a kernel to other code: printing, libdevice functions and inline PTX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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

    The code is marked as convergent and as having side effects: LLVM does not remove it, and does not move it under other
    conditions.
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
