"""Host code: kernel IR to an object file for this machine's CPU.

The entry is ``void entry(i64* slots, i64 begin, i64 end)``: one 64-bit slot a kernel parameter, and the part
of the outermost parallel loop that this call runs.
"""

from __future__ import annotations

import os
from functools import cache, lru_cache

import llvmlite.binding as llvm
import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer
from weft.codegen.llvm import vector_math
from weft.codegen.llvm.allowlist import COMMON, check_declarations
from weft.codegen.llvm.emit import Emitter, Item, scalar_type, wide
from weft.codegen.passes import run_passes
from weft.codegen.target import Target
from weft.runtime import CompileError, ObjectCode, setting


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@lru_cache(maxsize=8)
def _host_target(threads: int) -> Target:
    _initialise()
    features = llvm.get_host_cpu_features()
    known = {name for name, on in features.items() if on}
    vector = 64 if {"avx512f", "avx512vl", "avx512dq"} <= known else 32 if "avx2" in known else 16
    return Target(
        "host",
        "cpu",
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        features.flatten(),
        vector,
        threads,
    )


def host_target() -> Target:
    """This machine's CPU, with as many threads as the settings say."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _host_target(setting("threads") or usable)


class HostDialect:
    """How host code takes its arguments and calls the C library."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.symbols: set[str] = set()

    def pointer(self, type: Pointer) -> str:
        """Plain pointers."""
        return "ptr"

    def begin(self, emitter: Emitter) -> None:
        """The entry and the parameters' slots."""
        emitter.attributes.append(
            f'attributes #0 = {{ nounwind "target-cpu"="{self.target.arch}" "target-features"="{self.target.features}" '
            f'"prefer-vector-width"="{8 * self.target.vector_bytes}" "min-legal-vector-width"="{8 * self.target.vector_bytes}" }}'
        )
        emitter.lines += [
            f"define void @{emitter.kernel.name}(ptr noalias readonly %slots, i64 %begin, i64 %end) #0 {{",
            "entry:",
        ]
        for k, parameter in enumerate(emitter.kernel.parameters):
            slot = emitter.line(f"getelementptr inbounds i64, ptr %slots, i64 {k}")
            kind = parameter.value.type
            if isinstance(kind, Pointer):
                text = emitter.line(f"load ptr, ptr {slot}, align 8")
            elif kind.kind == "b":
                byte = emitter.line(f"load i8, ptr {slot}, align 8")
                text = emitter.line(f"icmp ne i8 {byte}, 0")
            else:
                text = emitter.line(f"load {scalar_type(kind)}, ptr {slot}, align 8")
            emitter.environment[parameter.value] = Item(text)

    def outer_bounds(self, emitter: Emitter, operation: Operation) -> tuple[str, str] | None:
        """The part of the outermost parallel loop that the call is to run."""
        kind = scalar_type(emitter.kernel.index_dtype)
        if kind == "i64":
            return "%begin", "%end"
        return emitter.line(f"trunc i64 %begin to {kind}"), emitter.line(f"trunc i64 %end to {kind}")

    def math(self, emitter: Emitter, name: str, dtype: np.dtype, operands: list[str], lanes: int) -> str:
        """A libm call; in vectors a libmvec call for each piece, or one scalar call a lane."""
        kind = scalar_type(dtype)
        bits = dtype.itemsize * 8
        scalar = vector_math.c_name(name, bits)
        variant = vector_math.vector_variant(name, bits, self.target.vector_bytes)
        if variant is not None:
            return self._vector_call(emitter, variant, kind, operands, lanes)
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

    def _vector_call(
        self, emitter: Emitter, variant: tuple[str, int], kind: str, operands: list[str], lanes: int
    ) -> str:
        """The vector function also where there are fewer values than it takes: the scalar one rounds otherwise, and
        a value must not depend on whether it fell into a vector or was left over."""
        symbol, width = variant
        self.symbols.add(symbol)
        if lanes < width:
            return self._padded_call(emitter, symbol, width, kind, operands, lanes)
        piece, vector = wide(kind, width), wide(kind, lanes)
        pieces = []
        for start in range(0, lanes, width):
            order = ", ".join(f"i32 {start + k}" for k in range(width))
            parts = [
                text
                if lanes == width
                else emitter.line(f"shufflevector {vector} {text}, {vector} poison, <{width} x i32> <{order}>")
                for text in operands
            ]
            pieces.append(emitter.call(symbol, piece, [(piece, part) for part in parts]))
        while len(pieces) > 1:
            joined = []
            order = ", ".join(f"i32 {k}" for k in range(2 * width))
            for k in range(0, len(pieces), 2):
                joined.append(
                    emitter.line(
                        f"shufflevector {wide(kind, width)} {pieces[k]}, {wide(kind, width)} {pieces[k + 1]}, <{2 * width} x i32> <{order}>"
                    )
                )
            pieces, width = joined, 2 * width
        return pieces[0]

    @staticmethod
    def _padded_call(emitter: Emitter, symbol: str, width: int, kind: str, operands: list[str], lanes: int) -> str:
        piece = wide(kind, width)
        parts = []
        for text in operands:
            if not lanes:
                parts.append(emitter.splat(text, kind, width))
                continue
            own = wide(kind, lanes)
            order = ", ".join(f"i32 {k % lanes}" for k in range(width))
            parts.append(emitter.line(f"shufflevector {own} {text}, {own} poison, <{width} x i32> <{order}>"))
        found = emitter.call(symbol, piece, [(piece, part) for part in parts])
        if not lanes:
            return emitter.line(f"extractelement {piece} {found}, i64 0")
        order = ", ".join(f"i32 {k}" for k in range(lanes))
        return emitter.line(f"shufflevector {piece} {found}, {piece} poison, <{lanes} x i32> <{order}>")

    def operation(self, emitter: Emitter, operation: Operation) -> bool:
        """The host has no operations of its own."""
        return False


def emit_host(kernel: Kernel, target: Target) -> tuple[str, tuple[str, ...]]:
    """LLVM text of a logical kernel for the host, and the outside symbols that it calls."""
    ready = run_passes(kernel, target)
    dialect = HostDialect(target)
    text = Emitter(ready, dialect).emit()
    check_declarations(text, COMMON, dialect.symbols)
    return text, tuple(sorted(dialect.symbols))


def _machine(target: Target) -> llvm.TargetMachine:
    # made anew for every module: an execution engine takes possession of its machine
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.arch, features=target.features, opt=2, reloc="pic", codemodel="default"
    )


def _optimised(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the generated code is not valid: {error}") from None
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def compile_host(kernel: Kernel, target: Target) -> ObjectCode:
    """Compile a logical kernel for the host."""
    _initialise()
    text, symbols = emit_host(kernel, target)
    machine = _machine(target)
    module = _optimised(text, machine)
    module.triple = target.triple
    parameters = tuple("pointer" if isinstance(p.value.type, Pointer) else p.value.type.name for p in kernel.parameters)
    outer = any(o.opcode == "for" and o.attributes["role"] == "parallel" for o in kernel.body.operations)
    return ObjectCode(
        "object",
        kernel.name,
        machine.emit_object(module),
        target.name,
        parameters,
        symbols,
        {"scheme": "chunks", "parallel": outer},
    )


def host_stages(kernel: Kernel, target: Target) -> dict[str, str]:
    """The text of every stage of a kernel for the host."""
    _initialise()
    text, _ = emit_host(kernel, target)
    machine = _machine(target)
    module = _optimised(text, machine)
    return {"llvm": str(module), "asm": machine.emit_assembly(module)}
