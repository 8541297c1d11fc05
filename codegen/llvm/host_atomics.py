"""Atomic operations of threaded kernels on the host CPU, as single instructions or as loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from weft.codegen.kernel_ir.operation import Operation, Pointer
from weft.codegen.llvm.emit import Emitter, Item, memory_type, scalar_type
from weft.runtime import CompileError

# Integer kinds that have an instruction: signed, unsigned.
_INTEGER = {
    "add": ("add", "add"),
    "subtract": ("sub", "sub"),
    "minimum": ("min", "umin"),
    "maximum": ("max", "umax"),
    "fmin": ("min", "umin"),
    "fmax": ("max", "umax"),
    "bitwise_and": ("and", "and"),
    "bitwise_or": ("or", "or"),
    "bitwise_xor": ("xor", "xor"),
    "exchange": ("xchg", "xchg"),
    "increment": ("uinc_wrap", "uinc_wrap"),
    "decrement": ("udec_wrap", "udec_wrap"),
}


def emit_atomic(emitter: Emitter, operation: Operation) -> None:
    """Emit an atomic operation: ``(pointer, index, value) {kind} -> the old element``."""
    pointer, index, value = operation.operands
    dtype, kind = _element(operation), operation.attributes["kind"]
    address = emitter.element(pointer, emitter.scalar_of(index), memory_type(dtype))
    text = emitter.scalar_of(value)
    if pointer.type.space == "shared" and kind in _PLAIN:  # type: ignore[union-attr]
        old = plain_update(emitter, kind, dtype, address, text)
    else:
        old = atomic_update(emitter, kind, dtype, address, text)
    if operation.results:
        emitter.set(operation, Item(old))


def atomic_update(emitter: Emitter, kind: str, dtype: np.dtype, address: str, value: str) -> str:
    """Emit an atomic update of an element that several CPU threads access, and return the old value."""
    if dtype.kind == "f":
        return _float_loop(emitter, kind, dtype, address, value)
    if kind not in _INTEGER:
        raise CompileError(f"no atomic {kind} of {dtype}")
    word, text = _INTEGER[kind][dtype.kind == "u"], scalar_type(dtype)
    return emitter.line(f"atomicrmw {word} ptr {address}, {text} {value} seq_cst, align {dtype.itemsize}")


# Kinds that are computed without an atomic instruction in memory of one CPU thread, and their instruction for integers.
_PLAIN = {
    "add": "add",
    "subtract": "sub",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "minimum": "min",
    "maximum": "max",
    "fmin": "min",
    "fmax": "max",
    "exchange": "",
}


def plain_update(emitter: Emitter, kind: str, dtype: np.dtype, address: str, value: str) -> str:
    """Emit an update of an element that only one CPU thread accesses, and return the old value.

    It is a plain load and store.

    The element is in a private copy, or in shared memory, since a single CPU thread runs all threads of a block. The
    accesses have no metadata of independent iterations, since several threads may access the same element.
    """
    text, align = scalar_type(dtype), f"align {dtype.itemsize}"
    old = emitter.line(f"load {text}, ptr {address}, {align}")
    if kind == "exchange":
        new = value
    elif dtype.kind == "f":
        new = _computed(emitter, FLOAT_REDUCTIONS[kind], dtype, old, value)
    elif _PLAIN[kind] in ("min", "max"):
        function = f"llvm.{'u' if dtype.kind == 'u' else 's'}{_PLAIN[kind]}.{text}"
        new = emitter.call(function, text, [(text, old), (text, value)])
    else:
        new = emitter.line(f"{_PLAIN[kind]} {text} {old}, {value}")
    emitter.do(f"store {text} {new}, ptr {address}, {align}")
    return old


def emit_compare_and_swap(emitter: Emitter, operation: Operation) -> None:
    """Emit a compare-and-swap: ``(pointer, index, expected, value) -> the old element``.

    Elements are compared by their bits.
    """
    pointer, index, expected, value = operation.operands
    dtype = _element(operation)
    address = emitter.element(pointer, emitter.scalar_of(index), memory_type(dtype))
    texts = [_bits(emitter, emitter.scalar_of(v), dtype) for v in (expected, value)]
    old, _ = _swap(emitter, dtype, address, texts[0], texts[1])
    if operation.results:
        emitter.set(operation, Item(_value(emitter, old, dtype)))


def _element(operation: Operation) -> np.dtype:
    kind = operation.operands[0].type
    assert isinstance(kind, Pointer)
    if kind.dtype.kind not in "iuf":
        raise CompileError(f"no atomic operations on elements of {kind.dtype}")
    return kind.dtype


def _bits(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    if dtype.kind != "f":
        return text
    return emitter.line(f"bitcast {scalar_type(dtype)} {text} to i{8 * dtype.itemsize}")


def _value(emitter: Emitter, text: str, dtype: np.dtype) -> str:
    if dtype.kind != "f":
        return text
    return emitter.line(f"bitcast i{8 * dtype.itemsize} {text} to {scalar_type(dtype)}")


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
    if kind == "exchange":
        bits = f"i{8 * dtype.itemsize}"
        text = _bits(emitter, value, dtype)
        old = emitter.line(f"atomicrmw xchg ptr {address}, {bits} {text} seq_cst, align {dtype.itemsize}")
        return _value(emitter, old, dtype)
    compute = FLOAT_REDUCTIONS.get(kind)
    if compute is None:
        raise CompileError(f"no atomic {kind} of {dtype}")
    bits, number = f"i{8 * dtype.itemsize}", emitter.fresh_number()
    first = emitter.line(f"load atomic {bits}, ptr {address} monotonic, align {dtype.itemsize}")
    before = emitter.label
    emitter.do(f"br label %swap{number}")
    emitter.start_label(f"swap{number}")
    current = emitter.name()
    slot = len(emitter.lines)
    emitter.lines.append("")
    old = _value(emitter, current, dtype)
    new = _computed(emitter, compute, dtype, old, value)
    found, done = _swap(emitter, dtype, address, current, _bits(emitter, new, dtype))
    emitter.lines[slot] = f"  {current} = phi {bits} [ {first}, %{before} ], [ {found}, %{emitter.label} ]"
    emitter.do(f"br i1 {done}, label %swapped{number}, label %swap{number}")
    emitter.start_label(f"swapped{number}")
    return old


Compute = Callable[[Emitter, str, str, str], str]


def _computed(emitter: Emitter, compute: Compute, dtype: np.dtype, old: str, value: str) -> str:
    """Compute the new value of an atomic operation. For float16, the computation is in float32."""
    if dtype.itemsize != 2:
        return compute(emitter, scalar_type(dtype), old, value)
    wide = [emitter.line(f"fpext half {text} to float") for text in (old, value)]
    return emitter.line(f"fptrunc float {compute(emitter, 'float', *wide)} to half")


def _add(emitter: Emitter, kind: str, old: str, value: str) -> str:
    return emitter.line(f"fadd {kind} {old}, {value}")


def _subtract(emitter: Emitter, kind: str, old: str, value: str) -> str:
    return emitter.line(f"fsub {kind} {old}, {value}")


def _choose(word: str, nan_wins: bool, emitter: Emitter, kind: str, old: str, value: str) -> str:
    """Emit a comparison that selects one of two values.

    `nan_wins` decides which value is selected if one is NaN.
    """
    stays = emitter.line(f"fcmp {word} {kind} {old}, {value}")
    which = old if nan_wins else value
    nan = emitter.line(f"fcmp uno {kind} {which}, {which}")
    either = emitter.line(f"or i1 {stays}, {nan}")
    return emitter.line(f"select i1 {either}, {kind} {old}, {kind} {value}")


FLOAT_REDUCTIONS: dict[str, Compute] = {
    "add": _add,
    "subtract": _subtract,
    "minimum": partial(_choose, "olt", True),
    "maximum": partial(_choose, "ogt", True),
    "fmin": partial(_choose, "olt", False),
    "fmax": partial(_choose, "ogt", False),
}
