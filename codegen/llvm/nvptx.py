"""Code generation for GPUs: kernel IR to PTX.

The entry function takes the kernel's parameters in order, each in its own width. Pointers refer to global memory, or to
arrays that are passed by value. No driver is needed. The table in `codegen/target.py` lists the minimum PTX version of
each architecture, because LLVM ends the process for an older version.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer
from weft.codegen.kernel_ir.text import print_kernel
from weft.codegen.llvm import libdevice, nvptx_calls, nvptx_memory, nvptx_threads
from weft.codegen.llvm.allowlist import COMMON, NVPTX, check_declarations
from weft.codegen.llvm.emit import Emitter, Item, memory_type, scalar_type
from weft.codegen.llvm.emit_text import suffix, with_float_flags
from weft.codegen.llvm.nvptx_device import emit_device
from weft.codegen.llvm.nvptx_lines import describe_module
from weft.codegen.passes.map_axes import launch_data, map_axes
from weft.codegen.pipeline import run_passes
from weft.codegen.target import CUDA_TRIPLE, Target
from weft.runtime import REGISTER_AIMS, CompileError, ObjectCode

_FAST_FUNCTIONS = frozenset({"sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow"})
_SPACES = {
    "global": "ptr addrspace(1)",
    "shared": "ptr addrspace(3)",
    "constant": "ptr addrspace(4)",
    "local": "ptr",
    "parameter": "ptr addrspace(101)",
}
_CONSTANT_BYTES = 64 * 1024  # size of constant memory; larger tables are in global memory


class NvptxDialect:
    """The dialect of GPU code: kernel arguments, calls to libdevice, and thread indices."""

    has_float16 = True

    def __init__(self, target: Target, kernel: Kernel) -> None:
        self.target = target
        self.spaces = dict(_SPACES)
        tables = sum(o.attributes["values"].nbytes for o in kernel.walk() if o.opcode == "table")
        if tables > _CONSTANT_BYTES:
            self.spaces["constant"] = _SPACES["global"]
        self.symbols: set[str] = set()  # functions of libdevice
        self.foreign: set[str] = set()  # functions of linked code
        self.marks: list[tuple[int, int]] = []  # (line of the code, line of the user's source from there on)

    def pointer(self, type: Pointer) -> str:
        """Return the LLVM type of a pointer, including its address space."""
        return self.spaces[type.space]

    def head(self, emitter: Emitter) -> None:
        """Emit the target triple, and the attributes of functions (#0) and of the kernel (#1)."""
        emitter.globals.append(f'target triple = "{CUDA_TRIPLE}"')
        emitter.keeps_loops = True
        fast = ['"denormal-fp-math-f32"="preserve-sign"'] if emitter.kernel.attributes.get("fast") else []
        for number, more in enumerate(([], _bounds(emitter.kernel))):
            emitter.attributes.append(f"attributes #{number} = {{ {' '.join(['nounwind', *fast, *more])} }}")

    def begin(self, emitter: Emitter) -> None:
        """Emit the head of the entry function, with alias and alignment attributes for its pointers."""
        kernel = emitter.kernel
        self.head(emitter)
        parts = []
        for p in kernel.parameters:
            kind = p.value.type
            name = f"%arg.{p.value.name}"  # no local value has this name
            if p.by_value:
                parts.append(f"ptr byval([{p.by_value} x i8]) align {p.align} {name}")
            elif isinstance(kind, Pointer):
                notes = " noalias" if p.noalias else ""
                notes += " readonly" if not p.writable and p.noalias else ""
                parts.append(f"{_SPACES['global']}{notes} align {max(p.align, 1)} {name}")
            else:
                parts.append(f"{memory_type(kind)} {name}")
            emitter.environment[p.value] = Item(name)
        emitter.lines += [f"define ptx_kernel void @{kernel.name}({', '.join(parts)}) #1 {{", "entry:"]
        for p in kernel.parameters:
            if isinstance(p.value.type, np.dtype) and p.value.type.kind == "b":
                emitter.environment[p.value] = Item(emitter.as_value(f"%arg.{p.value.name}", p.value.type, 0))
            elif p.by_value:  # (marked as parameter memory, so that LLVM never copies it to local memory)
                text = f"addrspacecast ptr %arg.{p.value.name} to {_SPACES['parameter']}"
                emitter.environment[p.value] = Item(emitter.line(text))

    def math(self, emitter: Emitter, name: str, dtype: np.dtype, operands: list[str], lanes: int) -> str:
        """Emit a call to a libdevice function on scalars. `lanes` is 0, since GPU kernels have no vectorized loops."""
        kind = scalar_type(dtype)
        if emitter.kernel.attributes.get("fast") and dtype.itemsize == 4 and name in _FAST_FUNCTIONS:
            name = f"fast_{name}"
        symbol = libdevice.device_name(name, dtype.itemsize * 8)
        self.symbols.add(symbol)
        return emitter.call(symbol, kind, [(kind, text) for text in operands])

    def operation(self, emitter: Emitter, operation: Operation) -> bool:
        """Emit an operation that needs GPU-specific code, or return False for other operations."""
        if "line" in operation.attributes:
            self.marks.append((len(emitter.lines), operation.attributes["line"]))
        own = _OPERATIONS.get(operation.opcode)
        return own is not None and own(emitter, operation) is not False


def _extreme(emitter: Emitter, operation: Operation) -> bool:
    """Emit a float32 minimum or maximum as one intrinsic, or return False for other dtypes."""
    if operation.results[0].type != np.float32:
        return False
    operands = [("float", emitter.scalar_of(v)) for v in operation.operands]
    emitter.set(operation, Item(emitter.call(f"llvm.{operation.opcode}.f32", "float", operands)))
    return True


def _number_extreme(emitter: Emitter, operation: Operation) -> None:
    """Emit fmin or fmax, which ignore NaN, for float32 or float64.

    The intrinsic orders zeros by their signs. If the operands are equal, the code therefore selects the second operand,
    as on other targets.
    """
    kind = emitter.type_of(operation.results[0].type)
    x, y = (emitter.scalar_of(v) for v in operation.operands)
    intrinsic = {"fmin": "minnum", "fmax": "maxnum"}[operation.opcode]
    found = emitter.call(f"llvm.{intrinsic}.{suffix(kind, 0)}", kind, [(kind, x), (kind, y)])
    equal = emitter.line(f"fcmp oeq {kind} {x}, {y}")
    emitter.set(operation, Item(emitter.line(f"select i1 {equal}, {kind} {y}, {kind} {found}")))


def _approximate(emitter: Emitter, operation: Operation) -> None:
    """Emit an approximate reciprocal or reciprocal square root as one intrinsic."""
    kind = emitter.type_of(operation.results[0].type)
    word = {"reciprocal": "rcp", "reciprocal root": "rsqrt"}[operation.attributes["function"]]
    (value,) = operation.operands
    name = f"llvm.nvvm.{word}.approx.ftz.{kind[0]}"
    emitter.set(operation, Item(emitter.call(name, kind, [(kind, emitter.scalar_of(value))])))


_OPERATIONS: dict[str, Callable[[Emitter, Operation], bool | None]] = {
    "minimum": _extreme,
    "maximum": _extreme,
    "fmin": _number_extreme,
    "fmax": _number_extreme,
    "approximate": _approximate,
    **nvptx_threads.OPERATIONS,
    **nvptx_memory.OPERATIONS,
    **nvptx_calls.OPERATIONS,
}


def _bounds(kernel: Kernel) -> list[str]:
    """Return LLVM attributes for the launch bounds and the register limit of a kernel."""
    attributes = kernel.attributes
    names = ("nvvm.maxntid", "nvvm.minctasm", "nvvm.maxclusterrank")
    given = attributes.get("launch_bounds", ()) or ((attributes["block"],) if "block" in attributes else ())
    bounds = [f'"{name}"="{value}"' for name, value in zip(names, given, strict=False) if value]
    registers = attributes.get("max_registers") or next(iter(attributes.get("register_aims", ())), 0)
    return [*bounds, *([f'"nvvm.maxnreg"="{registers}"'] if registers else [])]


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _emit(kernel: Kernel, target: Target) -> tuple[str, Kernel, bool]:
    """Return the LLVM text of a kernel, the kernel after all passes, and whether the text needs libdevice."""
    ready = run_passes(kernel, target)
    dialect = NvptxDialect(target, ready)
    emitter = Emitter(ready, dialect)
    if "device" in ready.attributes:
        dialect.head(emitter)
        emit_device(emitter)
    else:
        emitter.emit()
    describe_module(emitter, dialect.marks)
    text = emitter.text()
    check_declarations(text, (*COMMON, *NVPTX), dialect.symbols | dialect.foreign)
    if ready.attributes.get("fast"):
        text = with_float_flags(text, "contract afn arcp nsz reassoc")
    return text, ready, bool(dialect.symbols)


def _optimized(text: str, target: Target, with_library: bool) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    _initialize()
    machine = llvm.Target.from_triple(CUDA_TRIPLE).create_target_machine(
        cpu=target.arch, features=target.features, opt=3
    )
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the generated code is not valid: {error}") from None
    module.data_layout = str(machine.target_data)
    if with_library:
        libdevice.link(module)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def _build(kernel: Kernel, target: Target) -> tuple[Kernel, llvm.ModuleRef, str]:
    """Compile a kernel to PTX. Return three things: the kernel in its final form (after all passes), the optimized LLVM module, and the PTX.

    If the kernel has register limits to try, the last line of the PTX lists them for the PTX assembler.
    """
    text, ready, with_library = _emit(kernel, target)
    module, machine = _optimized(text, target, with_library)
    aims = ready.attributes.get("register_aims", ())
    note = f"{REGISTER_AIMS}{' '.join(map(str, aims))}\n" if aims else ""
    return ready, module, machine.emit_assembly(module) + note


def compile_code(kernel: Kernel, target: Target) -> ObjectCode:
    """Compile a kernel or a device function to PTX."""
    ready, _, ptx = _build(kernel, target)
    # (the driver provides vprintf)
    foreign = {o.attributes["symbol"] for o in ready.walk() if "links" in o.attributes}
    unresolved = set(re.findall(r"\.extern \.func[^;]*?(\w+)\s*\(", ptx)) - {"vprintf"} - foreign
    if unresolved:
        raise CompileError(f"no GPU code for {', '.join(sorted(unresolved))}")
    return ObjectCode(
        "ptx", kernel.name, ptx.encode(), target.name, tuple(p.kind for p in kernel.parameters), (), _launch(ready)
    )


def _launch(ready: Kernel) -> dict[str, Any]:
    if not ready.attributes.get("explicit"):
        return launch_data(ready)
    meets = any(o.opcode == "grid_barrier" for o in ready.walk())
    links = {*ready.attributes.get("links", ()), *(d for o in ready.walk() for d in o.attributes.get("links", ()))}
    found = {"scheme": "threads", **({"cooperative": True} if meets else {})}
    return found | ({"links": sorted(links)} if links else {})


def stages(kernel: Kernel, target: Target) -> dict[str, str]:
    """Return the text of a kernel after each stage of compilation for a GPU, by stage name.

    The stages are ``threaded``, ``llvm`` and ``asm``.
    """
    _, module, ptx = _build(kernel, target)
    threaded = print_kernel(map_axes(kernel, target) if kernel.level == "logical" else kernel)
    return {"threaded": threaded, "llvm": str(module), "asm": ptx}
