"""LLVM text for GPUs: shared memory, atomics, fences and cache operators.

An atomic is an LLVM operation: one instruction if the machine has it, otherwise a compare-and-swap loop. With the order
acq_rel or the scope system, an atomic that is one instruction is written as inline PTX. `minimum` and `maximum`
propagate NaN, while `fmin` and `fmax` ignore it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.llvm.emit import Emitter, Item, memory_type, scalar_type
from weft.codegen.llvm.emit_text import ATOMICS, bit_width

_SCOPES = {"block": 'syncscope("block") ', "device": 'syncscope("device") ', "system": ""}
_BARRIERS = {"block": "cta", "device": "gl", "system": "sys"}
_PTX_SCOPES = {"block": "cta", "device": "gpu", "system": "sys"}
# LLVM's name -> type -> PTX's name, of the atomics that are one instruction.
_INSTRUCTIONS = {
    "add": {"i32": "add.u32", "i64": "add.u64"},
    "fadd": {"half": "add.noftz.f16", "float": "add.f32", "double": "add.f64"},
    "min": {"i32": "min.s32", "i64": "min.s64"},
    "max": {"i32": "max.s32", "i64": "max.s64"},
    "umin": {"i32": "min.u32", "i64": "min.u64"},
    "umax": {"i32": "max.u32", "i64": "max.u64"},
    "and": {"i32": "and.b32", "i64": "and.b64"},
    "or": {"i32": "or.b32", "i64": "or.b64"},
    "xor": {"i32": "xor.b32", "i64": "xor.b64"},
    "xchg": {"i32": "exch.b32", "i64": "exch.b64"},
    "uinc_wrap": {"i32": "inc.u32"},
    "udec_wrap": {"i32": "dec.u32"},
}
_REGISTERS = {"i8": "h", "i16": "h", "i32": "r", "i64": "l", "half": "h", "float": "f", "double": "d"}


def shared(emitter: Emitter, operation: Operation) -> None:
    """Declare a shared array."""
    (result,) = operation.results
    name = f"@shared{emitter.fresh_number()}"
    kind = memory_type(result.element)
    emitter.globals.append(
        f"{name} = internal addrspace(3) global [{operation.attributes['count']} x {kind}] undef, align 16"
    )
    emitter.set(operation, Item(name))


def dynamic_shared(emitter: Emitter, operation: Operation) -> None:
    """Declare the dynamic shared memory of the launch. All `dynamic_shared` operations use the same memory."""
    name = f"@{emitter.kernel.name}__dynamic"
    declared = f"{name} = external addrspace(3) global [0 x i8], align 16"
    if declared not in emitter.globals:
        emitter.globals.append(declared)
    emitter.set(operation, Item(name))


def _access(emitter: Emitter, operation: Operation) -> tuple[str, np.dtype]:
    pointer, index = operation.operands[:2]
    dtype = pointer.element
    return f"{emitter.where(pointer)} {emitter.element(pointer, emitter.scalar_of(index), memory_type(dtype))}", dtype


def atomic(emitter: Emitter, operation: Operation) -> None:
    """Emit an atomic read-modify-write."""
    where, dtype = _access(emitter, operation)
    kind, text = scalar_type(dtype), emitter.scalar_of(operation.operands[2])
    name = ATOMICS[operation.attributes["kind"]]["iuf".index(dtype.kind)]
    if name == "fsub":
        # GPUs have an atomic add of floats. For a subtraction, LLVM would emit a loop.
        name, text = "fadd", emitter.line(f"fneg {kind} {text}")
    scope = operation.attributes.get("scope", "device")
    if scope == "system" and name == "sub":
        name, text = "add", emitter.line(f"sub {kind} 0, {text}")
    ordered = operation.attributes.get("order") == "acq_rel"
    if (ordered or scope == "system") and kind in _INSTRUCTIONS.get(name, {}):
        # LLVM would emit a relaxed operation with device scope
        space = operation.operands[0].type.space  # type: ignore[union-attr]
        word = f"atom.{'acq_rel.' if ordered else ''}{_PTX_SCOPES[scope]}.{space}.{_INSTRUCTIONS[name][kind]}"
        letter = _REGISTERS[kind]
        call = f'call {kind} asm sideeffect "{word} $0, [$1], $2;", "={letter},l,{letter},~{{memory}}"'
        emitter.set(operation, Item(emitter.line(f"{call}({where}, {kind} {text})")))
        return
    around = f"fence {_SCOPES[scope]}acq_rel"
    if ordered:
        emitter.do(around)
    old = emitter.line(f"atomicrmw {name} {where}, {kind} {text} {_SCOPES[scope]}monotonic, align {dtype.itemsize}")
    if ordered:
        emitter.do(around)
    emitter.set(operation, Item(old))


def atomic_cas(emitter: Emitter, operation: Operation) -> None:
    """Emit an atomic compare-and-swap, which compares bit patterns."""
    where, dtype = _access(emitter, operation)
    size = bit_width(dtype)
    texts = [emitter.as_integer(emitter.scalar_of(v), dtype) for v in operation.operands[2:]]
    scope = _SCOPES[operation.attributes.get("scope", "device")]
    both = emitter.line(
        f"cmpxchg {where}, i{size} {texts[0]}, i{size} {texts[1]} {scope}monotonic monotonic, align {dtype.itemsize}"
    )
    old = emitter.line(f"extractvalue {{ i{size}, i1 }} {both}, 0")
    emitter.set(operation, Item(emitter.from_integer(old, dtype)))


def fence(emitter: Emitter, operation: Operation) -> None:
    """Emit a memory fence for a block, the device or the system.

    A sequentially consistent fence is ``membar``, as for ``__threadfence_block()``, ``__threadfence()`` and
    ``__threadfence_system()`` of CUDA C++.
    """
    scope, order = operation.attributes["scope"], operation.attributes.get("order", "seq_cst")
    if order == "seq_cst":
        emitter.call(f"llvm.nvvm.membar.{_BARRIERS[scope]}", "void", [])
    else:
        emitter.do(f"fence {_SCOPES[scope]}{order}")


def load(emitter: Emitter, operation: Operation) -> bool:
    """Emit a load with a cache operator, or return False for other loads."""
    if not (hint := _hint(operation)):
        return False
    where, dtype = _access(emitter, operation)
    kind = memory_type(dtype)
    letter, form, carrier = _register_form(kind)
    text = emitter.line(
        f'call {carrier} asm sideeffect "ld.global.{hint}.{form} $0, [$1];", "={letter},l,~{{memory}}"({where})'
    )
    if kind == "i8":
        text = emitter.line(f"trunc i16 {text} to i8")
    elif kind != carrier:
        text = emitter.line(f"bitcast {carrier} {text} to {kind}")
    emitter.set(operation, Item(emitter.as_value(text, dtype, 0)))
    return True


def store(emitter: Emitter, operation: Operation) -> bool:
    """If a store has a cache operator, emit it as inline PTX, and return True. Otherwise, emit nothing, and return False."""
    if not (hint := _hint(operation)):
        return False
    where, dtype = _access(emitter, operation)
    kind, text = memory_type(dtype), emitter.scalar_of(operation.operands[2])
    letter, form, carrier = _register_form(kind)
    if kind == "i8":
        text = emitter.line(f"zext {'i1' if dtype.kind == 'b' else 'i8'} {text} to i16")
    elif kind != carrier:
        text = emitter.line(f"bitcast {kind} {text} to {carrier}")
    emitter.do(
        f'call void asm sideeffect "st.global.{hint}.{form} [$0], $1;", "l,{letter},~{{memory}}"'
        f"({where}, {carrier} {text})"
    )
    return True


def _hint(operation: Operation) -> str:
    """Return the cache operator of a load or a store, or "" for none. Only accesses to global memory have one."""
    space = operation.operands[0].type.space  # type: ignore[union-attr]
    return operation.attributes.get("hint", "") if space == "global" else ""


def _register_form(kind: str) -> tuple[str, str, str]:
    """Return the register constraint, the PTX type and the LLVM type of an element for inline PTX."""
    size = {"i8": "8", "i16": "16", "half": "16", "i32": "32", "float": "32", "i64": "64", "double": "64"}[kind]
    carrier = {"i8": "i16", "half": "i16"}.get(kind, kind)
    return _REGISTERS[kind], f"b{size}", carrier


# (the functions are named like their operations)
OPERATIONS: dict[str, Callable[[Emitter, Operation], bool | None]] = {
    f.__name__: f for f in (shared, dynamic_shared, atomic, atomic_cas, fence, load, store)
}
