"""Side effects of threaded kernels on the host CPU, such as printing.

Invariant: `print` passes its text pieces and the dtypes and formats of its values as JSON, preceded by the length,
and each value as one 64-bit word. The runtime's ``weft_print`` reads them.
"""

from __future__ import annotations

import json

from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.llvm.emit import Emitter, Item, memory_type
from weft.codegen.llvm.emit_text import escaped
from weft.codegen.llvm.host_polls import INTERVAL
from weft.runtime import CompileError


def emit_effect(emitter: Emitter, operation: Operation, symbols: set[str]) -> bool:
    """Emit an operation with a side effect, or return False for other operations.

    Raises CompileError for inline PTX and external functions, which exist only on a GPU.
    """
    match operation.opcode:
        case "print":
            symbols.add("weft_print")
            _print(emitter, operation)
        case "clock":
            emitter.set(operation, Item(emitter.call("llvm.readcyclecounter", "i64", [])))
        case "sleep":
            symbols.add("usleep")
            _sleep(emitter, operation)
        case "fence":
            emitter.do("fence seq_cst")
        case "assembly" | "external":
            what = "inline PTX" if operation.opcode == "assembly" else operation.attributes["symbol"]
            raise CompileError(f"kernel {emitter.kernel.name}: {what} exists on a GPU only")
        case _:
            return False
    return True


def _sleep(emitter: Emitter, operation: Operation) -> None:
    nanoseconds = emitter.line(f"zext i32 {emitter.scalar_of(operation.operands[0])} to i64")
    rounded = emitter.line(f"udiv i64 {emitter.line(f'add i64 {nanoseconds}, 999')}, 1000")
    emitter.call("usleep", "i32", [("i32", emitter.line(f"trunc i64 {rounded} to i32"))])


def _print(emitter: Emitter, operation: Operation) -> None:
    dtypes = []
    values = emitter.alloca(f"[{max(len(operation.operands), 1)} x i64]", 16)
    for k, value in enumerate(operation.operands):
        dtypes.append(value.dtype.str)
        kind, text = memory_type(value.dtype), emitter.as_memory(emitter.scalar_of(value), value.dtype, 0)
        slot = emitter.line(f"getelementptr inbounds i64, ptr {values}, i64 {k}")
        emitter.do(f"store {kind} {text}, ptr {slot}, align 8")
    formats = operation.attributes.get("formats", ()) or ("",) * len(dtypes)
    told = json.dumps([list(operation.attributes["pieces"]), dtypes, list(formats)]).encode()
    data = len(told).to_bytes(8, "little") + told
    name = f"@print{emitter.fresh_number()}"
    emitter.globals.append(f'{name} = internal constant [{len(data)} x i8] c"{escaped(data)}", align 8')
    emitter.polls.count(INTERVAL)  # handle a pending signal here, not in the printing function
    emitter.call("weft_print", "void", [("ptr", name), ("ptr", values), ("i64", emitter.polls.fault or "0")])
    emitter.polls.count(INTERVAL)
