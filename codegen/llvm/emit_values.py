"""The emitter's arithmetic: ops of the op table, constants and casts."""

from __future__ import annotations

import numpy as np

from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.llvm.emit_text import Item, Writer, literal, scalar_type, suffix, wide
from weft.codegen.llvm.float16_bits import to_float16, to_float32
from weft.codegen.ops.op_table import find_op
from weft.runtime import CompileError


def _flags(operation: Operation) -> str:
    # the attribute states that the integers do not overflow
    return " nsw" if operation.attributes.get("nowrap") and operation.opcode in ("add", "subtract", "multiply") else ""


class ValueEmitter(Writer):
    """The part of the emitter for arithmetic, constants and casts."""

    def table_op(self, operation: Operation) -> None:
        """Emit the LLVM instruction or call that the op table specifies for a scalar operation."""
        if self._linear(operation):
            return
        definition = find_op(operation.opcode)
        first, result = operation.operands[0].dtype, operation.results[0].dtype
        how = definition.lowering.get(first.kind)
        if how is None:
            raise CompileError(f"{definition.name} has neither a lowering nor an expansion for {first}")
        lanes = self.lanes if self.varying(operation.operands) else 0
        if how == "same":
            self.set(operation, self.environment[operation.operands[0]])
            return
        texts = [self.text_of(v, lanes) for v in operation.operands]
        kind = wide(scalar_type(first), lanes)
        form, _, word = how.partition(" ")
        match form:
            case "instruction" if len(texts) == 1:
                text = self.line(f"{word} {kind} {texts[0]}")
            case "instruction":
                text = self.line(f"{word}{_flags(operation)} {kind} {texts[0]}, {texts[1]}")
            case "icmp" | "fcmp":
                text = self.line(f"{form} {word} {kind} {texts[0]}, {texts[1]}")
            case "negate":
                text = self.line(f"sub {kind} zeroinitializer, {texts[0]}" if lanes else f"sub {kind} 0, {texts[0]}")
            case "not":
                ones = self.splat("-1" if first.kind != "b" else "true", scalar_type(first), lanes) if lanes else "-1"
                text = self.line(f"xor {kind} {texts[0]}, {ones}")
            case "select":
                value = wide(scalar_type(result), lanes)
                text = self.line(f"select {kind} {texts[0]}, {value} {texts[1]}, {value} {texts[2]}")
            case "bitcast":
                text = self.line(f"bitcast {kind} {texts[0]} to {wide(scalar_type(result), lanes)}")
            case "intrinsic":
                arguments = [(kind, t) for t in texts] + (
                    [("i1", "false")] if word in ("llvm.abs", "llvm.ctlz") else []
                )
                text = self.call(f"{word}.{suffix(scalar_type(first), lanes)}", kind, arguments)
            case "math":
                text = self.dialect.math(self, word, first, texts, lanes)
            case _:
                raise CompileError(f"{definition.name}: unknown lowering {how!r}")
        self.set(operation, Item(text, lanes))

    def _linear(self, operation: Operation) -> bool:
        """Emit an operation if it is index arithmetic that is linear in the lane. Return whether it is."""
        name = operation.opcode
        if name not in ("add", "subtract", "multiply") or operation.results[0].type != self.kernel.index_dtype:
            return False
        x, y = (self.environment[v] for v in operation.operands)
        if not self.lanes or not (x.step is not None or y.step is not None):
            return False
        if any(i.lanes and i.step is None for i in (x, y)):
            return False
        kind = scalar_type(self.kernel.index_dtype)
        word = {"add": "add", "subtract": "sub", "multiply": "mul"}[name]
        if name == "multiply":
            if x.step is not None and y.step is not None:
                return False
            line, uniform = (x, y) if x.step is not None else (y, x)
            base = self.line(f"mul nsw {kind} {line.text}, {uniform.text}")
            step = self._step("mul", line.step, uniform.known if uniform.known is not None else uniform.text)
        else:
            base = self.line(f"{word} nsw {kind} {x.text}, {y.text}")
            step = self._step(word, x.step or 0, y.step or 0)
        self.set(operation, Item(base, 0, None) if step == 0 else Item(base, self.lanes, step))
        return True

    def _step(self, word: str, x: int | str | None, y: int | str | None) -> int | str:
        assert x is not None
        assert y is not None
        if isinstance(x, int) and isinstance(y, int):
            return x + y if word == "add" else x - y if word == "sub" else x * y
        if word == "mul" and x == 1:
            return y
        if word == "add" and x == 0:
            return y
        if word != "mul" and y == 0:
            return x
        return self.line(f"{word} nsw {scalar_type(self.kernel.index_dtype)} {x}, {y}")

    def constant(self, operation: Operation) -> None:
        """Record a constant's LLVM text, without emitting an instruction."""
        dtype = operation.results[0].dtype
        value = operation.attributes["value"]
        known = int(value) if dtype.kind in "iu" else None
        self.set(operation, Item(literal(value, dtype), known=known))

    def cast(self, operation: Operation) -> None:
        """Emit a cast to another dtype. Casts from floats to integers saturate, and NaN becomes 0."""
        (value,) = operation.operands
        source, target = value.dtype, operation.results[0].dtype
        item = self.environment[value]
        lanes = self.lanes if item.lanes else 0
        if item.step is not None and target.kind in "iu" and isinstance(item.step, int):
            # an index in another integer type stays linear
            text = self.convert(item.text, source, target, 0)
            if target == self.kernel.index_dtype:
                self.set(operation, Item(text, lanes, item.step))
                return
        known = int(np.asarray(item.known).astype(target)) if item.known is not None and target.kind in "iu" else None
        if operation.attributes.get("nowrap") and not lanes and target.itemsize < source.itemsize:
            text = self.line(f"trunc nsw {scalar_type(source)} {item.text} to {scalar_type(target)}")
            self.wide_indices[text] = item.text
            self.set(operation, Item(text, known=known))
            return
        self.set(operation, Item(self.convert(self.text_of(value, lanes), source, target, lanes), lanes, known=known))

    def _saturate(self, text: str, old: str, target: np.dtype, lanes: int) -> str:
        """Convert floats to integers with saturation, by comparisons that LLVM can vectorize.

        LLVM does not vectorize its saturating intrinsic.

        Integers of 8 or 16 bits are converted through 32 bits. The maximum of other integers may have no exact
        representation as a float.
        """
        limits, kind = np.iinfo(target), wide(old, lanes)
        word = "i32" if target.itemsize <= 2 else scalar_type(target)
        digits = 53 if old == "double" else 24
        exact = int(limits.max).bit_length() <= digits
        bound = self.splat(f"{limits.min}.0", old, lanes)
        holds = self.line(f"fcmp ogt {kind} {text}, {bound}")
        bounded = self.line(f"select {wide('i1', lanes)} {holds}, {kind} {text}, {kind} {bound}")
        bound = self.splat(f"{int(limits.max) + (not exact)}.0", old, lanes)
        holds = self.line(f"fcmp olt {kind} {bounded}, {bound}")
        other = bound if exact else self.splat("0.0", old, lanes)
        bounded = self.line(f"select {wide('i1', lanes)} {holds}, {kind} {bounded}, {kind} {other}")
        unsigned = target.kind == "u" and target.itemsize > 2
        whole = self.line(f"fpto{'ui' if unsigned else 'si'} {kind} {bounded} to {wide(word, lanes)}")
        if not exact:
            most = self.splat(str(limits.max), word, lanes)
            choice = f"{wide(word, lanes)} {whole}, {wide(word, lanes)} {most}"
            whole = self.line(f"select {wide('i1', lanes)} {holds}, {choice}")
        if target.kind == "i":  # (here NaN becomes the minimum, which is 0 for unsigned types)
            number = self.line(f"fcmp ord {kind} {text}, {self.splat('0.0', old, lanes)}")
            zero = f"{wide(word, lanes)} {self.splat('0', word, lanes)}"
            whole = self.line(f"select {wide('i1', lanes)} {number}, {wide(word, lanes)} {whole}, {zero}")
        if word == scalar_type(target):
            return whole
        return self.line(f"trunc {wide(word, lanes)} {whole} to {wide(scalar_type(target), lanes)}")

    def _round_to_odd(self, text: str, lanes: int) -> str:
        """Convert a float64 to a float32 that rounds to the same float16 as the float64.

        An inexact result is truncated, and its last bit is set (Boldo and Melquiond 2008).
        """
        double, single, word = (wide(kind, lanes) for kind in ("double", "float", "i32"))
        near = self.line(f"fptrunc {double} {text} to {single}")
        back = self.line(f"fpext {single} {near} to {double}")
        name = f"llvm.fabs.{suffix('double', lanes)}"
        own, other = (self.call(name, double, [(double, each)]) for each in (back, text))
        above = self.line(f"fcmp ogt {double} {own}, {other}")
        inexact = self.line(f"fcmp one {double} {back}, {text}")
        bits = self.line(f"bitcast {single} {near} to {word}")
        one, last = (self.line(f"zext {wide('i1', lanes)} {each} to {word}") for each in (above, inexact))
        odd = self.line(f"or {word} {self.line(f'sub {word} {bits}, {one}')}, {last}")
        return self.line(f"bitcast {word} {odd} to {single}")

    def convert(self, text: str, source: np.dtype, target: np.dtype, lanes: int) -> str:
        """Convert the value `text` from dtype `source` to dtype `target`."""
        old, new = scalar_type(source), scalar_type(target)
        if source == target or (source.kind in "iu" and target.kind in "iu" and old == new):
            return text
        if old == "half" and not self.dialect.has_float16:
            text, old, source = to_float32(self, text, lanes), "float", np.dtype(np.float32)
            if source == target:
                return text
        if target.kind == "b":
            zero = "zeroinitializer" if lanes else ("0.0" if source.kind == "f" else "0")
            return self.line(f"{'fcmp une' if source.kind == 'f' else 'icmp ne'} {wide(old, lanes)} {text}, {zero}")
        if source.kind == "f" and target.kind in "iu":
            if old == "half":
                text, old = self.line(f"fpext {wide(old, lanes)} {text} to {wide('float', lanes)}"), "float"
            if lanes or self.vectorizes:
                return self._saturate(text, old, target, lanes)
            name = f"llvm.fpto{'s' if target.kind == 'i' else 'u'}i.sat.{suffix(new, lanes)}.{suffix(old, lanes)}"
            return self.call(name, wide(new, lanes), [(wide(old, lanes), text)])
        if new == "half":
            if source.kind != "f":
                step = "sitofp" if source.kind == "i" else "uitofp"
                text = self.line(f"{step} {wide(old, lanes)} {text} to {wide('float', lanes)}")
            elif old == "double":
                # (the direct conversion is a library call that some machines lack)
                text = self._round_to_odd(text, lanes)
            if not self.dialect.has_float16:
                return to_float16(self, text, lanes)
            return self.line(f"fptrunc {wide('float', lanes)} {text} to {wide(new, lanes)}")
        if source.kind == "f":
            word = "fpext" if target.itemsize > source.itemsize else "fptrunc"
        elif target.kind == "f":
            word = "sitofp" if source.kind == "i" else "uitofp"
        elif target.itemsize < source.itemsize:
            word = "trunc"
        else:
            word = "sext" if source.kind == "i" else "zext"
        return self.line(f"{word} {wide(old, lanes)} {text} to {wide(new, lanes)}")
