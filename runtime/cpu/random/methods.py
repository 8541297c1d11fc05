"""The methods that native code draws, and the LLVM text of their elements.

In: the name of a method. Out: its number in native code, the elements' dtype, and the number of steps that an element
takes. Invariant: elements that read words of several bits read them in the order of memory, with the low word first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu.random.bit_generators import BLOCK
from weft.runtime.llvm_files import read_llvm


class Drawing(NamedTuple):
    """A method that draws standard numbers.

    Attributes
    ----------
    number : int
        The number in native code.
    steps : float
        Average number of steps per element, if no word is rejected.
    least : int
        The number of elements that native code draws in less time than NumPy's loop.
    dtype : dtype
    bits : int
        Bits of the word that an element reads, or 0 if it takes as many steps as it needs.
    """

    number: int
    steps: float
    least: int
    dtype: np.dtype = np.dtype(np.float64)
    bits: int = 0


def integers_of(bits: int, dtype: np.dtype) -> str:
    """Return the name of the method that draws bounded integers of a dtype from words."""
    return f"integers {bits}/{8 * dtype.itemsize}"


_INTEGERS = [(64, "i8"), (32, "i8"), (32, "i4"), (16, "i2"), (8, "i1")]
METHODS = {
    "random": Drawing(0, 1.0, 1 << 13),
    "standard_normal": Drawing(1, 1.0216, 1 << 12),
    "standard_exponential": Drawing(2, 1.0337, 1 << 13),
    "random float32": Drawing(3, 0.5, 1 << 13, np.dtype(np.float32), 32),
    "positive": Drawing(4, 1.0, 1 << 12, np.dtype(np.float64), 64),
    **{
        integers_of(bits, np.dtype(code)): Drawing(5 + k, bits / 64, 1 << 13, np.dtype(code), bits)
        for k, (bits, code) in enumerate(_INTEGERS)
    },
}
NAMES = {method.number: name for name, method in METHODS.items()}


class Transform(NamedTuple):
    """A function of standard numbers: its number in native code, the method, and example parameters."""

    number: int
    method: str
    example: tuple[float, ...]


FUNCTIONS = {
    "lognormal": Transform(1, "standard_normal", ()),
    "weibull": Transform(2, "standard_exponential", (1.75,)),
    "pareto": Transform(3, "standard_exponential", (1.75,)),
    "power": Transform(4, "standard_exponential", (1.75,)),
    "rayleigh": Transform(5, "standard_exponential", (1.75,)),
    "laplace": Transform(6, "positive", (0.5, 1.75)),
    "gumbel": Transform(7, "positive", (0.5, 1.75)),
    "logistic": Transform(8, "positive", (0.5, 1.75)),
    "triangular": Transform(9, "random", (0.5, 1.75, 2.5)),
}
FUNCTION_NAMES = {function.number: name for name, function in FUNCTIONS.items()}


def words_texts() -> dict[str, Any]:
    """Return the LLVM text of elements that read words, and the parts of `streams.ll` that choose among them."""
    texts: dict[str, Any] = {"WORDS": "", "WORDS_SWITCH": "", "WORDS_RANGE": "", "WORDS_COUNT": "", "WORDS_END": ""}
    result = "{ i64, i64 }"
    for method in METHODS.values():
        if not method.bits:
            continue
        name = f"words{method.number}"
        texts["WORDS"] += _words(name, method)
        texts["WORDS_SWITCH"] += f" i64 {method.number}, label %{name}"
        out = "ptr %out, ptr %stream, i64 %first, i64 %last, ptr %distances"
        texts["WORDS_RANGE"] += f"{name}:\n  call void @{name}.range({out})\n  ret void\n"
        count = f"call {result} @{name}.count(ptr %stream, i128 %state, i128 %increment, ptr %distances)"
        texts["WORDS_COUNT"] += f"{name}:\n  %{name}.found = {count}\n  ret {result} %{name}.found\n"
        end = "ptr %slots, ptr %stream, i64 %end, ptr %distances"
        texts["WORDS_END"] += f"{name}:\n  call void @{name}.end({end})\n  ret void\n"
    return texts


def _words(name: str, method: Drawing) -> str:
    size = method.dtype.itemsize
    word, kind = f"i{method.bits}", {"f8": "double", "f4": "float"}.get(method.dtype.str[1:], f"i{8 * size}")
    if method.dtype.kind == "f":
        element = read_llvm(__file__, "positive_element" if size == 8 else "float_element", NAME=name)
    else:
        wide = f"i{2 * method.bits}"
        element = read_llvm(
            __file__,
            "integer_element",
            NAME=name,
            TYPE=kind,
            WORD=word,
            WIDE=wide,
            BITS=method.bits,
            MOST=_narrowed("%most", "i64", word),
            THRESHOLD=_narrowed("%threshold", "i64", word),
            OFFSET=_narrowed("%high", wide, kind),
            LOW=_narrowed("%low", "i64", kind),
        )
    count = BLOCK * 64 // method.bits
    return read_llvm(
        __file__, "words", NAME=name, ELEMENT=element, TYPE=kind, WORD=word, BITS=method.bits, BYTES=size, COUNT=count,
        BLOCK=BLOCK,
    )  # fmt: skip


def _narrowed(value: str, kind: str, target: str) -> str:
    return f"add {kind} {value}, 0" if kind == target else f"trunc {kind} {value} to {target}"
