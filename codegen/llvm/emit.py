"""The emitter, which writes LLVM assembly text for kernel IR.

In: a kernel after the target's passes, without composite ops, complex values or float16 arithmetic. Out: the text of
one LLVM module. The emitter is the same for every target. A dialect (`HostDialect`, `GridDialect`, `CoroutineDialect`
or `NvptxDialect`) supplies the entry, address spaces, math functions and thread operations. Invariant: inside a loop
with `lanes`, every value is a scalar that all lanes share, a value that is linear in the lane (a scalar and a step), or
a vector. Accesses keep program order.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen.kernel_ir.operation import STRUCTURAL, Operation
from weft.codegen.llvm.emit_control import ControlEmitter
from weft.codegen.llvm.emit_loops import LoopEmitter
from weft.codegen.llvm.emit_memory import MemoryEmitter
from weft.codegen.llvm.emit_text import Item, literal, memory_type, scalar_type, suffix, wide
from weft.codegen.llvm.emit_values import ValueEmitter
from weft.runtime import CompileError


class Emitter(ValueEmitter, MemoryEmitter, LoopEmitter, ControlEmitter):
    """Emitter of LLVM text for one kernel."""

    def emit(self) -> str:
        """Emit the module and return its text."""
        self.dialect.begin(self)
        self.reserve_allocas()
        self.block(self.kernel.body)
        self.finish_streams()
        self.close_function("ret void")
        self.functions()
        return self.text()

    def text(self) -> str:
        """Return all text written so far."""
        parts = [*self.globals, *self.lines, *self.declarations.values(), *self.attributes, *self.metadata, ""]
        return "\n".join(parts)

    def operation(self, operation: Operation) -> None:
        """Emit one operation of kernel IR. If the operation has a target-specific form, the dialect emits it."""
        if self.dialect.operation(self, operation):
            return
        structural = _STRUCTURAL.get(operation.opcode)
        if structural is not None:
            structural(self, operation)
        elif operation.opcode in STRUCTURAL:
            raise CompileError(f"{self.kernel.name}: there is no {operation.opcode} on this target")
        else:
            self.table_op(operation)


_STRUCTURAL: dict[str, Callable[[Emitter, Operation], None]] = {
    "constant": Emitter.constant,
    "cast": Emitter.cast,
    "load": Emitter.load,
    "store": Emitter.store,
    "for": Emitter.loop,
    "if": Emitter.branch,
    "scope": Emitter.scope,
    "repeat": Emitter.repeat,
    "leave": Emitter.leave,
    "call": Emitter.call_function,
    "local": Emitter.local,
    "offset": Emitter.offset,
    "reinterpret": Emitter.reinterpret,
    "address": Emitter.address,
    "pointer": Emitter.pointer,
    "table": Emitter.table,
}

__all__ = ["Emitter", "Item", "literal", "memory_type", "scalar_type", "suffix", "wide"]
