"""Host code: kernel IR to an object file for this machine's CPU.

The entry is ``void entry(i64* slots, i64 begin, i64 end)``: one 64-bit slot a kernel parameter, and the part
of the outermost parallel loop that this call runs.
"""

from __future__ import annotations

import os
from functools import cache, lru_cache

import llvmlite.binding as llvm

from weft.codegen.kernel_ir.operation import Kernel, Pointer
from weft.codegen.llvm.allowlist import COMMON, HOST, check_declarations
from weft.codegen.llvm.emit import Emitter
from weft.codegen.llvm.host_dialect import HostDialect
from weft.codegen.llvm.host_grid import emit_loops
from weft.codegen.passes import expand_complex, expand_ops, run_passes
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


def emit_host(kernel: Kernel, target: Target) -> tuple[str, tuple[str, ...]]:
    """LLVM text of a kernel for the host, and the outside symbols that it calls."""
    if kernel.attributes.get("explicit"):
        text, symbols = emit_loops(expand_ops(expand_complex(kernel)), target)
    else:
        dialect = HostDialect(target)
        text, symbols = Emitter(run_passes(kernel, target), dialect).emit(), dialect.symbols
    check_declarations(text, (*COMMON, *HOST), symbols)
    return text, tuple(sorted(symbols))


def _machine(target: Target) -> llvm.TargetMachine:
    # made anew for every module: an execution engine takes possession of its machine
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.arch, features=target.features, opt=2, reloc="pic", codemodel="default"
    )


def _optimised(text: str, machine: llvm.TargetMachine, explicit: bool) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the generated code is not valid: {error}") from None
    if explicit:
        module.data_layout = str(machine.target_data)
    # threads in loops are vectorised by LLVM, elements in lanes are vectors already
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = explicit
    options.slp_vectorization = False
    options.loop_unrolling = explicit
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def _build(kernel: Kernel, target: Target) -> tuple[llvm.ModuleRef, llvm.TargetMachine, tuple[str, ...]]:
    _initialise()
    text, symbols = emit_host(kernel, target)
    machine = _machine(target)
    module = _optimised(text, machine, bool(kernel.attributes.get("explicit")))
    module.triple = target.triple
    return module, machine, symbols


def compile_host(kernel: Kernel, target: Target) -> ObjectCode:
    """Compile a logical or an explicit kernel for the host."""
    module, machine, symbols = _build(kernel, target)
    parameters = tuple("pointer" if isinstance(p.value.type, Pointer) else p.value.type.name for p in kernel.parameters)
    if kernel.attributes.get("explicit"):
        launch = {"scheme": "threads", "parallel": True, "cooperative": _has(kernel, "grid_barrier")}
    else:
        outer = any(o.opcode == "for" and o.attributes["role"] == "parallel" for o in kernel.body.operations)
        launch = {"scheme": "chunks", "parallel": outer}
    return ObjectCode("object", kernel.name, machine.emit_object(module), target.name, parameters, symbols, launch)


def _has(kernel: Kernel, opcode: str) -> bool:
    return any(operation.opcode == opcode for operation in kernel.walk())


def host_stages(kernel: Kernel, target: Target) -> dict[str, str]:
    """The text of every stage of a kernel for the host."""
    module, machine, _ = _build(kernel, target)
    return {"llvm": str(module), "asm": machine.emit_assembly(module)}
