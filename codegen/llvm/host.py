"""Code generation for the CPU of this machine.

The entry is ``void entry(i64* slots, i64 begin, i64 end)``. There is one 64-bit slot per kernel parameter, and threaded
kernels have more slots (`host_grid.py`). `begin` and `end` are the range of the outermost parallel loop, or of the
grid, that this call runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from weft.codegen.kernel_ir.operation import STRUCTURAL, Kernel, Operation, Pointer
from weft.codegen.llvm.allowlist import COMMON, HOST, check_declarations
from weft.codegen.llvm.emit import Emitter
from weft.codegen.llvm.emit_text import with_float_flags
from weft.codegen.llvm.host_dialect import HostDialect
from weft.codegen.ops.op_table import find_op
from weft.codegen.passes.find_spans import find_spans
from weft.codegen.passes.map_axes import launch_data
from weft.codegen.pipeline import run_passes
from weft.codegen.target import Target
from weft.runtime import CompileError, ObjectCode

# Minimum number of loops over threads in a function whose loops become separate functions. A call takes about as long
# as 16 threads of a short loop.
MANY_LOOPS = 150
LOOP = "!llvm.loop "  # occurs in the text of each loop over threads
MOST_DEPTH = 4  # maximum number of rounds in which loops become functions, each one level deeper


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def describe_host() -> tuple[str, str, str]:
    """Return LLVM's description of this machine: target triple, CPU name and features."""
    _initialize()
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@dataclass(frozen=True, slots=True)
class HostText:
    """The LLVM text of a kernel for the host, with the external symbols and the launch parameters."""

    text: str
    symbols: tuple[str, ...]
    launch: dict[str, Any]


def emit_host(kernel: Kernel, target: Target) -> HostText:
    """Emit the LLVM text of a kernel for the host.

    User-written kernels and kernels with a GPU schedule run their GPU threads on the host.
    """
    ready = run_passes(kernel, target)
    launch = _launch(ready, _cost(kernel))
    if ready.level == "logical":
        dialect = HostDialect(target)
        text, symbols = Emitter(ready, dialect).emit(), dialect.symbols
    else:
        text, symbols, more = import_module("weft.codegen.llvm.host_threads").emit_threads(ready, target)
        launch |= more
    check_declarations(text, (*COMMON, *HOST), symbols)
    if kernel.level == "threaded" and kernel.attributes.get("fast"):
        text = with_float_flags(text, "contract arcp nsz reassoc")
    return HostText(text, tuple(sorted(symbols)), launch)


def _cost(kernel: Kernel) -> int:
    """Return the approximate number of instructions per element, without index arithmetic."""
    found = [o for o in kernel.walk() if o.opcode not in STRUCTURAL and isinstance(o.results[0].type, np.dtype)]
    return sum(find_op(o.opcode).cost for o in found if o.results[0].type != kernel.index_dtype)


def _launch(ready: Kernel, cost: int) -> dict[str, Any]:
    """Return the launch parameters of a kernel.

    A logical kernel runs in chunks of its outermost loop, and a threaded kernel in thread blocks.
    """
    if ready.level == "logical":
        outer = any(o.opcode == "for" and o.attributes["role"] == "parallel" for o in ready.body.operations)
        spans = [[k, *span] for k, span in find_spans(ready).items()]
        grain = ready.attributes.get("grain", 1)
        return {"scheme": "chunks", "parallel": outer, "grain": grain, "cost": cost, "spans": spans}
    alone = bool(ready.attributes.get("trace"))  # events must be in order
    if "scheme" in ready.attributes:
        traced = {"trace": ready.attributes["trace"], "traced": ready.attributes["traced"]} if alone else {}
        return {"parallel": not alone, **launch_data(ready), **traced}
    cooperative = any(operation.opcode == "grid_barrier" for operation in ready.walk())
    loops = any(o.opcode in ("for", "repeat") for o in ready.walk()) and not any(map(_depends_on_order, ready.walk()))
    return {"scheme": "threads", "parallel": not alone, "cooperative": cooperative, "loops": loops}


def _depends_on_order(o: Operation) -> bool:
    """Return whether the effect of an operation may depend on the order in which blocks run."""
    kind = o.operands[0].type if o.opcode in ("atomic", "atomic_cas") else None
    return o.opcode == "print" or (isinstance(kind, Pointer) and kind.space == "global")


def _effort(target: Target) -> int:
    """Return LLVM's optimization level. It is 0 for GPU schedules on the host, since only tests use them."""
    return 2 if target.schedule is None else 0


def _machine(target: Target) -> llvm.TargetMachine:
    # created for each module: an execution engine takes ownership of its machine
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.arch, features=target.features, opt=_effort(target), reloc="pic", codemodel="default"
    )


def _extract_loops(module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    """Move outer loops into separate functions until no function has many loops over threads.

    Stop after `MOST_DEPTH` rounds. LLVM's loop passes and its code generator take longer than linear time for functions
    with many loops.
    """
    own = {function.name for function in module.functions}
    for _ in range(MOST_DEPTH):
        if all(str(function).count(LOOP) < MANY_LOOPS for function in module.functions):
            break
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_loop_simplify_pass()
        passes.add_loop_extract_pass()
        passes.run(module, builder)
    for function in module.functions:
        if function.name not in own:
            function.add_function_attribute("noinline")


def _optimized(text: str, machine: llvm.TargetMachine, threaded: bool, effort: int) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the generated code is not valid: {error}") from None
    if threaded:
        module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=effort)
    options.loop_vectorization = options.loop_unrolling = threaded
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if threaded:  # LLVM vectorizes loops over threads
        if text.count(LOOP) >= MANY_LOOPS:
            _extract_loops(module, builder)
        builder.getModulePassManager().run(module, builder)
        return module
    # loops with lanes are already vectorized: these passes give equally fast code in a fifth of the compile time
    passes = llvm.create_new_module_pass_manager()
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


def _build(kernel: Kernel, target: Target) -> tuple[llvm.ModuleRef, llvm.TargetMachine, HostText]:
    _initialize()
    made = emit_host(kernel, target)
    machine = _machine(target)
    module = _optimized(made.text, machine, made.launch["scheme"] != "chunks", _effort(target))
    module.triple = target.triple
    return module, machine, made


def compile_code(kernel: Kernel, target: Target) -> ObjectCode:
    """Compile a logical or a threaded kernel for the host CPU."""
    module, machine, made = _build(kernel, target)
    parameters = tuple(p.kind for p in kernel.parameters)
    data = machine.emit_object(module)
    return ObjectCode("object", kernel.name, data, target.name, parameters, made.symbols, made.launch)


def stages(kernel: Kernel, target: Target) -> dict[str, str]:
    """Return the optimized LLVM IR and the assembly text of a kernel, by stage name."""
    module, machine, _ = _build(kernel, target)
    return {"llvm": str(module), "asm": machine.emit_assembly(module)}
