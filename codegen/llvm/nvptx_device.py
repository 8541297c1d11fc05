"""LLVM text of a device function for callers outside weft.

The function has the kernel's name. With the C ABI it returns its value: several values as a struct, a bool as a byte.
With Numba's ABI (``abi`` attribute: numba) it writes its value through the first parameter, and returns the status 0.
"""

from __future__ import annotations

import numpy as np

from weft.codegen.kernel_ir.operation import Function, Type
from weft.codegen.llvm.emit import Emitter, memory_type
from weft.codegen.llvm.emit_text import struct_type


def emit_device(emitter: Emitter) -> None:
    """Emit a device function for callers outside weft, and the functions that it calls.

    The kernel's ``device`` attribute names the function.
    """
    kernel = emitter.kernel
    emitter.functions()
    function = next(f for f in kernel.functions if f.name == kernel.attributes["device"])
    numba = kernel.attributes.get("abi") == "numba"
    result = struct_type([_external_type(emitter, type) for type in function.results])
    parameters = [f"{_external_type(emitter, v.type)} %arg.{k}" for k, v in enumerate(function.parameters)]
    if numba:
        parameters.insert(0, "ptr %result")
    head = f"define {'i32' if numba else result} @{kernel.name}({', '.join(parameters)}) #0 {{"
    emitter.lines.append(head)
    emitter.start_label("entry")
    text = _external_result(emitter, function, _call_internal(emitter, function))
    if numba:
        if function.results:
            align = max(type.itemsize if isinstance(type, np.dtype) else 8 for type in function.results)
            emitter.do(f"store {result} {text}, ptr %result, align {align}")
        emitter.lines += ["  ret i32 0", "}"]
    else:
        emitter.lines += [f"  ret {result} {text}".rstrip(), "}"]


def _external_type(emitter: Emitter, type: Type) -> str:
    return memory_type(type) if isinstance(type, np.dtype) else emitter.type_of(type)


def _call_internal(emitter: Emitter, function: Function) -> str:
    """Emit a call to `function`, with arguments converted to the function's internal types."""
    arguments = []
    for k, value in enumerate(function.parameters):
        text = f"%arg.{k}"
        if value.type == np.bool_:
            text = emitter.line(f"icmp ne i8 {text}, 0")
        arguments.append(f"{emitter.type_of(value.type)} {text}")
    result = emitter.result_type(function)
    return emitter.append(result, f"call {result} @{emitter.function_symbol(function.name)}({', '.join(arguments)})")


def _external_result(emitter: Emitter, function: Function, text: str) -> str:
    """Emit the conversion of a function's results to their external types. A bool becomes an 8-bit integer."""
    parts = []
    for k, type in enumerate(function.results):
        part = text
        if len(function.results) > 1:
            part = emitter.line(f"extractvalue {emitter.result_type(function)} {text}, {k}")
        if type == np.bool_:
            part = emitter.line(f"zext i1 {part} to i8")
        parts.append((_external_type(emitter, type), part))
    return emitter.packed(parts)
