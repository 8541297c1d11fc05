"""Atomic operations of threaded kernels on the host CPU."""

from __future__ import annotations

import numpy as np

from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.llvm.emit import Emitter, Item, memory_type, scalar_type
from weft.codegen.llvm.emit_text import ATOMICS
from weft.runtime import CompileError

# LLVM's name for floats -> the comparison that selects the first value, and whether NaN is selected. The host has no
# instructions for these.
_COMPARISONS = {
    "fminimum": ("olt", True),
    "fmaximum": ("ogt", True),
    "fmin": ("olt", False),
    "fmax": ("ogt", False),
}


def emit_atomic(emitter: Emitter, operation: Operation) -> None:
    """Emit the update of an array element by an `atomic` operation. The operation's result is the old value."""
    pointer, index, value = operation.operands
    dtype, kind = _element(operation), operation.attributes["kind"]
    address = emitter.element(pointer, emitter.scalar_of(index), memory_type(dtype))
    text = emitter.scalar_of(value)
    if pointer.type.space == "shared" and kind not in ("increment", "decrement"):  # type: ignore[union-attr]
        old = plain_update(emitter, kind, dtype, address, text)
    else:
        old = atomic_update(emitter, kind, dtype, address, text)
    if operation.results:
        emitter.set(operation, Item(old))


def atomic_update(emitter: Emitter, kind: str, dtype: np.dtype, address: str, value: str) -> str:
    """Emit an atomic update of an element that several CPU threads may access, and return the old value."""
    if dtype.kind == "f" and kind != "exchange":
        return _float_loop(emitter, kind, dtype, address, value)
    word, text = ATOMICS[kind][dtype.kind == "u"], scalar_type(dtype)
    return emitter.line(f"atomicrmw {word} ptr {address}, {text} {value} seq_cst, align {dtype.itemsize}")


def plain_update(emitter: Emitter, kind: str, dtype: np.dtype, address: str, value: str) -> str:
    """Emit an update of an element that only one CPU thread accesses, and return the old value.

    The element is in a private copy, or in the shared memory of a block, all of whose threads run on a single CPU
    thread. The load and the store have no metadata of independent iterations, since several threads of the block may
    access the same element.
    """
    text, align = scalar_type(dtype), f"align {dtype.itemsize}"
    old = emitter.line(f"load {text}, ptr {address}, {align}")
    new = value if kind == "exchange" else combine(emitter, kind, dtype, old, value)
    emitter.do(f"store {text} {new}, ptr {address}, {align}")
    return old


def emit_compare_and_swap(emitter: Emitter, operation: Operation) -> None:
    """Emit a compare-and-swap of bits: ``(pointer, index, expected, value) -> the old element``."""
    pointer, index, expected, value = operation.operands
    dtype = _element(operation)
    address = emitter.element(pointer, emitter.scalar_of(index), memory_type(dtype))
    texts = [emitter.as_integer(emitter.scalar_of(v), dtype) for v in (expected, value)]
    old, _ = _swap(emitter, dtype, address, texts[0], texts[1])
    if operation.results:
        emitter.set(operation, Item(emitter.from_integer(old, dtype)))


def _element(operation: Operation) -> np.dtype:
    dtype = operation.operands[0].element
    if dtype.kind not in "iuf":
        raise CompileError(f"no atomic operations on elements of {dtype}")
    return dtype


def _swap(emitter: Emitter, dtype: np.dtype, address: str, expected: str, value: str) -> tuple[str, str]:
    """Emit a compare-and-swap of bits, and return the old bits and whether the swap happened."""
    kind = f"i{8 * dtype.itemsize}"
    both = emitter.line(
        f"cmpxchg ptr {address}, {kind} {expected}, {kind} {value} seq_cst seq_cst, align {dtype.itemsize}"
    )
    pair = f"{{ {kind}, i1 }}"
    return emitter.line(f"extractvalue {pair} {both}, 0"), emitter.line(f"extractvalue {pair} {both}, 1")


def _float_loop(emitter: Emitter, kind: str, dtype: np.dtype, address: str, value: str) -> str:
    """Emit an atomic float operation as a compare-and-swap loop, and return the old value."""
    bits, number = f"i{8 * dtype.itemsize}", emitter.fresh_number()
    first = emitter.line(f"load atomic {bits}, ptr {address} monotonic, align {dtype.itemsize}")
    before = emitter.label
    emitter.jump(f"swap{number}")
    current, slot = emitter.reserve_phi()
    old = emitter.from_integer(current, dtype)
    new = combine(emitter, kind, dtype, old, value)
    found, done = _swap(emitter, dtype, address, current, emitter.as_integer(new, dtype))
    emitter.lines[slot] = f"  {current} = phi {bits} [ {first}, %{before} ], [ {found}, %{emitter.label} ]"
    emitter.fork(done, f"swapped{number}", f"swap{number}")
    return old


def combine(emitter: Emitter, kind: str, dtype: np.dtype, x: str, y: str) -> str:
    """Emit code that combines two values by the op `kind`, and return the result.

    The op is that of an atomic or a reduction. Values of float16 are combined in float32.
    """
    if dtype.char == "e":
        single = np.dtype(np.float32)
        x, y = (emitter.convert(text, dtype, single, 0) for text in (x, y))
        return emitter.convert(combine(emitter, kind, single, x, y), single, dtype, 0)
    text = scalar_type(dtype)
    if dtype.kind == "f":
        if not (word := ATOMICS[kind][2]):
            raise CompileError(f"no atomic or warp reduction {kind} of {dtype}")
        if word in _COMPARISONS:
            return _choose(emitter, *_COMPARISONS[word], text, x, y)
        return emitter.line(f"{word} {text} {x}, {y}")
    word = ATOMICS[kind][dtype.kind == "u"]
    if word.endswith(("min", "max")):
        return emitter.call(f"llvm.{word if dtype.kind == 'u' else f's{word}'}.{text}", text, [(text, x), (text, y)])
    return emitter.line(f"{word} {text} {x}, {y}")


def _choose(emitter: Emitter, word: str, nan_wins: bool, kind: str, old: str, value: str) -> str:
    """Emit a comparison that selects one of two values. `nan_wins` decides whether a NaN is selected."""
    stays = emitter.line(f"fcmp {word} {kind} {old}, {value}")
    which = old if nan_wins else value
    nan = emitter.line(f"fcmp uno {kind} {which}, {which}")
    either = emitter.line(f"or i1 {stays}, {nan}")
    return emitter.line(f"select i1 {either}, {kind} {old}, {kind} {value}")
