"""The part of the emitter that is specific to the host CPU.

It emits the entry function and calls to the C library.
"""

from __future__ import annotations

import numpy as np

from weft.codegen.kernel_ir.operation import Operation, Pointer
from weft.codegen.llvm import vector_math
from weft.codegen.llvm.emit import Emitter, Item, memory_type, scalar_type, wide
from weft.codegen.llvm.float16_bits import has_float16
from weft.codegen.llvm.function_formulas import formula
from weft.codegen.llvm.host_transposes import emit_transposed
from weft.codegen.target import Target


class HostDialect:
    """The dialect of host code. Arguments come from slots in memory, and math functions from the C library."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.symbols: set[str] = set()
        self.masks = target.has_masks
        self.has_float16 = has_float16(target)

    def pointer(self, type: Pointer) -> str:
        """Return the LLVM type of a pointer, which has no address space."""
        return "ptr"

    def begin(self, emitter: Emitter) -> None:
        """Emit the start of the entry function, and load the parameters from their argument slots."""
        self.open_entry(emitter)
        self.bind_parameters(emitter)

    def open_entry(self, emitter: Emitter) -> None:
        """Emit the signature of the entry function, and the label of its first block."""
        bits = 8 * self.target.vector_bytes
        emitter.attributes.append(
            f'attributes #0 = {{ nounwind "target-cpu"="{self.target.arch}" "target-features"="{self.target.features}" '
            f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" }}'
        )
        emitter.lines.append(
            f"define void @{emitter.kernel.name}(ptr noalias readonly %slots, i64 %begin, i64 %end) #0 {{"
        )
        emitter.start_label("entry")

    @staticmethod
    def bind_parameters(emitter: Emitter) -> None:
        """Emit loads of the parameters from their argument slots."""
        for k, parameter in enumerate(emitter.kernel.parameters):
            slot = emitter.line(f"getelementptr inbounds i64, ptr %slots, i64 {k}")
            kind = parameter.value.type
            if isinstance(kind, Pointer):
                text = emitter.line(f"load ptr, ptr {slot}, align 8")
            else:
                text = emitter.as_value(emitter.line(f"load {memory_type(kind)}, ptr {slot}, align 8"), kind, 0)
            emitter.environment[parameter.value] = Item(text)

    def math(self, emitter: Emitter, name: str, dtype: np.dtype, operands: list[str], lanes: int) -> str:
        """Emit a C library function as an inline formula, as calls to libmvec, or as one call to libm per lane."""
        written = formula(emitter, self.target, name, dtype, operands, lanes)
        if written is not None:
            return written
        kind = scalar_type(dtype)
        bits = dtype.itemsize * 8
        scalar = vector_math.c_name(name, bits)
        variant = vector_math.vector_variant(name, bits, self.target.vector_bytes)
        if variant is not None:
            # the scalar function may round differently, and a result must not depend on the position of its element
            self.symbols.add(variant[0])
            return vector_math.vector_call(emitter, variant, kind, operands, lanes)
        self.symbols.add(scalar)
        if not lanes:
            return emitter.call(scalar, kind, [(kind, text) for text in operands])
        vector = wide(kind, lanes)
        result = "poison"
        for k in range(lanes):
            parts = [emitter.line(f"extractelement {vector} {text}, i64 {k}") for text in operands]
            one = emitter.call(scalar, kind, [(kind, part) for part in parts])
            result = emitter.line(f"insertelement {vector} {result}, {kind} {one}, i64 {k}")
        return result

    def operation(self, emitter: Emitter, operation: Operation) -> bool:
        """Emit a prefetch or the transposed copy of a tile, or return False for other operations."""
        if operation.opcode == "fetch":
            emitter.fetch(operation)
            return True
        if operation.opcode == "transposed":
            emit_transposed(emitter, operation, self.target.vector_bytes)
            return True
        return False
