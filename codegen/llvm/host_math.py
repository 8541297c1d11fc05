"""Calls to C library functions in loops over threads.

LLVM vectorizes these loops. A value must not depend on whether it is computed in a vector or in a remainder. The scalar
form therefore also calls the vector function, with one value. Each function is wrapped, and the scalar wrapper declares
its vector forms to LLVM.
"""

from __future__ import annotations

import numpy as np

from weft.codegen.llvm import vector_math
from weft.codegen.llvm.emit import Emitter, scalar_type, wide
from weft.codegen.llvm.function_formulas import formula
from weft.codegen.target import Target

WIDTHS = (2, 4, 8, 16)


class HostMath:
    """The C library calls of a module, with wrapper functions that let LLVM vectorize them."""

    def __init__(self, target: Target, symbols: set[str]) -> None:
        self.target = target
        self.symbols = symbols
        self.used: dict[str, tuple[np.dtype, int, tuple[str, int] | None]] = {}

    def call(self, emitter: Emitter, name: str, dtype: np.dtype, operands: list[str]) -> str:
        """Emit a call to a C library function on scalars, or an inline formula if there is one."""
        written = formula(emitter, self.target, name, dtype, operands, 0)
        if written is not None:
            return written
        bits = dtype.itemsize * 8
        symbol = vector_math.c_name(name, bits)
        variant = vector_math.vector_variant(name, bits, self.target.vector_bytes)
        arity = len(operands)
        self.used[symbol] = dtype, arity, variant
        kind = scalar_type(dtype)
        arguments = ", ".join(f"{kind} {text}" for text in operands)
        if variant is None:
            self.symbols.add(symbol)
            emitter.declare(symbol, kind, [kind] * arity)
            return emitter.line(f"call {kind} @{symbol}({arguments}) #1")
        number = 10 + list(self.used).index(symbol)
        return emitter.line(f"call {kind} @weft_{symbol}({arguments}) #{number}")

    def define(self, emitter: Emitter) -> None:
        """Emit the wrapper functions after all code that calls them."""
        if not self.used:
            return
        emitter.attributes.append("attributes #1 = { nounwind willreturn memory(none) }")
        kept = []
        head = emitter.attributes[0].partition("{")[2].rpartition("}")[0].strip()
        emitter.attributes.append(f"attributes #2 = {{ noinline willreturn memory(none) {head} }}")
        for number, (symbol, (dtype, arity, variant)) in enumerate(self.used.items()):
            if variant is None:
                continue
            self.symbols.add(variant[0])
            names = []
            for lanes in (0, *WIDTHS):
                own = f"weft_{symbol}" + (f"_{lanes}" if lanes else "")
                kind, operands = wide(scalar_type(dtype), lanes), [f"%a{k}" for k in range(arity)]
                parameters = ", ".join(f"{kind} {operand}" for operand in operands)
                emitter.lines.append(f"define internal {kind} @{own}({parameters}) #2 {{")
                emitter.start_label("entry")
                text = vector_math.vector_call(emitter, variant, scalar_type(dtype), operands, lanes, " #1")
                emitter.lines += [f"  ret {kind} {text}", "}"]
                kept.append(own)  # as declared: a constant argument must stay an argument
                if lanes:
                    names.append(f"_ZGV_LLVM_N{lanes}{'v' * arity}_weft_{symbol}({own})")
            emitter.attributes.append(
                f'attributes #{10 + number} = {{ nounwind willreturn memory(none) "vector-function-abi-variant"="{",".join(names)}" }}'
            )
        if kept:
            entries = ", ".join(f"ptr @{name}" for name in kept)
            emitter.globals.append(
                f'@llvm.compiler.used = appending global [{len(kept)} x ptr] [{entries}], section "llvm.metadata"'
            )
