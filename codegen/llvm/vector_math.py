"""Names of C math functions, and calls to their vector variants."""

from __future__ import annotations

import ctypes
from functools import cache

from weft.codegen.llvm.emit_memory import MemoryEmitter
from weft.codegen.llvm.emit_text import wide

# C library functions that ops refer to, with their numbers of arguments.
C_FUNCTIONS = {
    **dict.fromkeys(
        "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh cbrt "
        "erf erfc tgamma lgamma".split(),
        1,
    ),
    **dict.fromkeys("pow fmod atan2 hypot nextafter".split(), 2),
}


@cache
def vector_library() -> ctypes.CDLL | None:
    """Return glibc's libmvec, or None if the machine lacks it."""
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


def c_name(name: str, bits: int) -> str:
    """Return the name of a C library function for float32 or float64."""
    return name + ("f" if bits == 32 else "")


@cache
def vector_variant(name: str, bits: int, vector_bytes: int) -> tuple[str, int] | None:
    """Return the name and lane count of the widest variant of a C function in libmvec, or None.

    Variants with vectors of more than `vector_bytes` bytes are excluded.
    """
    library = vector_library()
    if library is None:
        return None
    arguments = "v" * C_FUNCTIONS[name]
    for letter, width in (("e", 64), ("d", 32), ("b", 16)):
        lanes = width * 8 // bits
        symbol = f"_ZGV{letter}N{lanes}{arguments}_{c_name(name, bits)}"
        if width <= vector_bytes and hasattr(library, symbol):
            return symbol, lanes
    return None


def vector_call(
    emitter: MemoryEmitter, variant: tuple[str, int], kind: str, operands: list[str], lanes: int, note: str = ""
) -> str:
    """Emit calls to a vector function on vectors of `lanes` values, or on scalars if `lanes` is 0.

    Operands that are shorter than the function's vectors are filled up with repeated values. `note` is the text after
    each call.
    """
    symbol, width = variant
    piece, vector = wide(kind, width), wide(kind, lanes)
    emitter.declare(symbol, piece, [piece] * len(operands))

    def select(text: str, first: int) -> str:
        if not lanes:
            return emitter.splat(text, kind, width)
        order = [(first + k) % lanes for k in range(width)]
        return text if lanes == width else emitter.shuffled(vector, order, text)

    pieces = []
    for first in range(0, max(lanes, 1), width):
        arguments = ", ".join(f"{piece} {select(text, first)}" for text in operands)
        pieces.append(emitter.line(f"call {piece} @{symbol}({arguments}){note}"))
    text = emitter.concatenated(pieces, kind, width)
    if not lanes:
        return emitter.line(f"extractelement {piece} {text}, i64 0")
    return emitter.shuffled(piece, range(lanes), text) if lanes < width else text
