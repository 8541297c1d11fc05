"""GPU code: kernel IR to PTX.

The entry takes the kernel's parameters in order, each in its own width; pointers lie in global memory. No driver is
needed. A closed table of architectures says which PTX version each needs at least: LLVM ends the process for less.
"""

from __future__ import annotations

import re
from functools import lru_cache

import llvmlite.binding as llvm
import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer
from weft.codegen.kernel_ir.text import print_kernel
from weft.codegen.llvm import libdevice
from weft.codegen.llvm.allowlist import COMMON, NVPTX, check_declarations
from weft.codegen.llvm.emit import Emitter, Item, scalar_type
from weft.codegen.passes import map_axes, run_passes
from weft.codegen.target import Target
from weft.runtime import CompileError, ObjectCode

# Architecture -> the least PTX version that knows it, as LLVM's feature counts.
ARCHITECTURES = {
    "sm_75": 63,
    "sm_80": 70,
    "sm_86": 71,
    "sm_87": 74,
    "sm_89": 78,
    "sm_90": 78,
    "sm_100": 86,
    "sm_103": 88,
    "sm_120": 87,
    "sm_121": 88,
}
TRIPLE = "nvptx64-nvidia-cuda"
_SPACES = {"global": "ptr addrspace(1)", "shared": "ptr addrspace(3)", "local": "ptr"}


def cuda_target(name: str) -> Target:
    """The GPU target called `name`. Raises CompileError for an architecture that is not in the table."""
    if name not in ARCHITECTURES:
        raise CompileError(f"no target {name!r}; there are host, {', '.join(ARCHITECTURES)}")
    return Target(name, "cuda", TRIPLE, name, f"+ptx{ARCHITECTURES[name]}", 16, 0)


class NvptxDialect:
    """How GPU code takes its arguments, calls libdevice and knows its threads."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.symbols: set[str] = set()
        self.shared = 0

    def pointer(self, type: Pointer) -> str:
        """A pointer in its address space."""
        return _SPACES[type.space]

    def begin(self, emitter: Emitter) -> None:
        """The entry, with what is known of its pointers."""
        kernel = emitter.kernel
        emitter.globals += [f'target triple = "{TRIPLE}"']
        parts = []
        for p in kernel.parameters:
            kind = p.value.type
            name = f"%arg.{p.value.name}"  # no local value is called so
            if isinstance(kind, Pointer):
                notes = " noalias" if p.noalias else ""
                notes += " readonly" if not p.writable and p.noalias else ""
                parts.append(f"{_SPACES['global']}{notes} align {max(p.align, 1)} {name}")
            else:
                parts.append(f"{'i8' if kind.kind == 'b' else scalar_type(kind)} {name}")
            emitter.environment[p.value] = Item(name)
        block = kernel.attributes["block"]
        emitter.attributes.append(f'attributes #0 = {{ nounwind "nvvm.maxntid"="{block}" }}')
        emitter.lines += [f"define ptx_kernel void @{kernel.name}({', '.join(parts)}) #0 {{", "entry:"]
        for p in kernel.parameters:
            if isinstance(p.value.type, np.dtype) and p.value.type.kind == "b":
                emitter.environment[p.value] = Item(emitter.line(f"icmp ne i8 %arg.{p.value.name}, 0"))

    def outer_bounds(self, emitter: Emitter, operation: Operation) -> tuple[str, str] | None:
        """No loop of a threaded kernel is parallel."""
        return None

    def math(self, emitter: Emitter, name: str, dtype: np.dtype, operands: list[str], lanes: int) -> str:
        """A libdevice call a lane."""
        kind = scalar_type(dtype)
        symbol = libdevice.device_name(name, dtype.itemsize * 8)
        self.symbols.add(symbol)
        if not lanes:
            return emitter.call(symbol, kind, [(kind, text) for text in operands])
        vector = f"<{lanes} x {kind}>"
        result = "poison"
        for k in range(lanes):
            parts = [emitter.line(f"extractelement {vector} {text}, i64 {k}") for text in operands]
            one = emitter.call(symbol, kind, [(kind, part) for part in parts])
            result = emitter.line(f"insertelement {vector} {result}, {kind} {one}, i64 {k}")
        return result

    def operation(self, emitter: Emitter, operation: Operation) -> bool:
        """Thread operations."""
        match operation.opcode:
            case "thread_index" | "block_index" | "block_size" | "grid_size":
                self._number(emitter, operation)
            case "barrier":
                emitter.declare("llvm.nvvm.barrier0", "void", [])
                emitter.lines.append("  call void @llvm.nvvm.barrier0()")
            case "shared":
                self._shared(emitter, operation)
            case "shuffle_xor":
                self._shuffle(emitter, operation)
            case _:
                return False
        return True

    def _number(self, emitter: Emitter, operation: Operation) -> None:
        register = {"thread_index": "tid", "block_index": "ctaid", "block_size": "ntid", "grid_size": "nctaid"}
        text = emitter.call(f"llvm.nvvm.read.ptx.sreg.{register[operation.opcode]}.x", "i32", [])
        if emitter.kernel.index_dtype.itemsize == 8:
            text = emitter.line(f"zext i32 {text} to i64")
        emitter.set(operation, Item(text))

    def _shared(self, emitter: Emitter, operation: Operation) -> None:
        kind = operation.results[0].type
        assert isinstance(kind, Pointer)
        element = "i8" if kind.dtype.kind == "b" else scalar_type(kind.dtype)
        name = f"@shared{self.shared}"
        self.shared += 1
        emitter.globals.append(
            f"{name} = internal addrspace(3) global [{operation.attributes['count']} x {element}] undef, align 16"
        )
        emitter.set(operation, Item(name))

    def _shuffle(self, emitter: Emitter, operation: Operation) -> None:
        (value,) = operation.operands
        kind = value.type
        assert isinstance(kind, np.dtype)
        text, mask = emitter.text_of(value, 0), operation.attributes["mask"]
        size = 1 if kind.kind == "b" else kind.itemsize * 8
        name = scalar_type(kind)
        if kind.kind == "f":
            text = emitter.line(f"bitcast {name} {text} to i{size}")
        if size == 64:
            low = emitter.line(f"trunc i64 {text} to i32")
            high = emitter.line(f"trunc i64 {emitter.line(f'lshr i64 {text}, 32')} to i32")
            low, high = self._exchange(emitter, low, mask), self._exchange(emitter, high, mask)
            wide_high = emitter.line(f"shl i64 {emitter.line(f'zext i32 {high} to i64')}, 32")
            text = emitter.line(f"or i64 {emitter.line(f'zext i32 {low} to i64')}, {wide_high}")
        elif size == 32:
            text = self._exchange(emitter, text, mask)
        else:
            moved = self._exchange(emitter, emitter.line(f"zext i{size} {text} to i32"), mask)
            text = emitter.line(f"trunc i32 {moved} to i{size}")
        if kind.kind == "f":
            text = emitter.line(f"bitcast i{size} {text} to {name}")
        emitter.set(operation, Item(text))

    @staticmethod
    def _exchange(emitter: Emitter, text: str, mask: int) -> str:
        arguments = [("i32", "-1"), ("i32", text), ("i32", str(mask)), ("i32", "31")]
        return emitter.call("llvm.nvvm.shfl.sync.bfly.i32", "i32", arguments)


@lru_cache(maxsize=1)
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def emit_nvptx(kernel: Kernel, target: Target) -> tuple[str, Kernel, bool]:
    """LLVM text of a logical kernel, its threaded form, and whether libdevice has to be linked."""
    ready = run_passes(kernel, target)
    dialect = NvptxDialect(target)
    text = Emitter(ready, dialect).emit()
    check_declarations(text, (*COMMON, *NVPTX), dialect.symbols)
    return text, ready, bool(dialect.symbols)


def _optimised(text: str, target: Target, with_library: bool) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    _initialise()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=target.arch, features=target.features, opt=3)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the generated code is not valid: {error}") from None
    module.data_layout = str(machine.target_data)
    if with_library:
        libdevice.link(module)
        # what is not called goes before anything is optimised: the library is large
        early = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
        manager = llvm.create_new_module_pass_manager()
        manager.add_global_dead_code_eliminate_pass()
        manager.run(module, early)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def compile_nvptx(kernel: Kernel, target: Target) -> ObjectCode:
    """Compile a logical kernel to PTX."""
    text, ready, with_library = emit_nvptx(kernel, target)
    module, machine = _optimised(text, target, with_library)
    ptx = machine.emit_assembly(module)
    unresolved = re.findall(r"\.extern \.func[^;]*?(\w+)\s*\(", ptx)
    if unresolved:
        raise CompileError(f"no GPU code for {', '.join(sorted(set(unresolved)))}")
    parameters = tuple("pointer" if isinstance(p.value.type, Pointer) else p.value.type.name for p in kernel.parameters)
    launch = {k: ready.attributes[k] for k in ("scheme", "block", "per_block", "most_blocks")}
    return ObjectCode("ptx", kernel.name, ptx.encode(), target.name, parameters, (), launch)


def nvptx_stages(kernel: Kernel, target: Target) -> dict[str, str]:
    """The text of every stage of a kernel for a GPU."""
    text, _, with_library = emit_nvptx(kernel, target)
    module, machine = _optimised(text, target, with_library)
    return {
        "threaded": print_kernel(map_axes(kernel, target)),
        "llvm": str(module),
        "asm": machine.emit_assembly(module),
    }
