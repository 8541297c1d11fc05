"""Native implementations of methods of NumPy's random generators.

In: the name of a method. Out: its number in native code, the elements' dtype, and the number of steps that an element
takes. Invariant: words (parts of the 64-bit outputs) are read from the low bits of an output to its high bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu.random.bit_generators import BLOCK
from weft.runtime.llvm_files import read_llvm


class Drawing(NamedTuple):
    """Description of a native method that draws random numbers.

    Attributes
    ----------
    number : int
        The number in native code.
    steps : float
        Average number of steps of the bit generator per element, if no word of bounded integers is rejected.
    least : int
        Minimum number of elements that native code draws in less time than NumPy's loop.
    dtype : dtype
    bits : int
        Bits of the word that an element reads, or 0 if it reads the outputs of one or several steps.
    """

    number: int
    steps: float
    least: int
    dtype: np.dtype = np.dtype(np.float64)
    bits: int = 0

    @property
    def reads_halves(self) -> bool:
        """Whether elements are drawn from halves of the bit generator's 64-bit outputs.

        If one half of the last output is unused, the first elements are read from that half.
        """
        return 0 < self.bits < 64


def integers_of(bits: int, dtype: np.dtype) -> str:
    """Return the name of the method that draws integers of `dtype` from words of `bits` bits."""
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
    "standard_normal float32": Drawing(10, 0.5131, 1 << 13, np.dtype(np.float32), 32),
    "standard_exponential float32": Drawing(11, 0.5213, 1 << 13, np.dtype(np.float32), 32),
}
NAMES = {method.number: name for name, method in METHODS.items()}


class Transform(NamedTuple):
    """Description of a random distribution. Native code computes its samples from those of a simpler distribution, such as the normal one.

    `number` identifies the distribution in native code. `method` is a key of `METHODS`. `example` contains parameters for a test.
    """

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


# For each ziggurat: the name of its layer's text, the index of its tables' first word, and constants of the text: the
# start of the tail (3.654 or 7.697) and the negative inverse of the start, in LLVM's exact notation for floats, and the
# bits below the layer's and above the position's in a word.
ZIGGURATS: dict[str, tuple[str, int, dict[str, object]]] = {
    "standard_normal": (
        "normal", 0, {"START": "0x400D3BB48209AD33", "NEGATIVE_INVERSE": "0xBFD183AA6C20E8C1", "LOW": 0, "HIGH": 3},
    ),
    "standard_exponential": ("exponential", 1024, {"START": "0x401EC9D9297EBB83", "LOW": 3, "HIGH": 0}),
    "standard_normal float32": (
        "normal", 2048, {"START": "0x400D3BB480000000", "NEGATIVE_INVERSE": "0xBFD183AA60000000"},
    ),
    "standard_exponential float32": ("exponential", 2432, {"START": "0x401EC9D920000000", "LOW": 1}),
}  # fmt: skip


def method_texts() -> dict[str, Any]:
    """Return a dict that maps placeholders in the file `streams.ll` to LLVM text. The texts implement the methods that draw random numbers.

    The method "random" is not included.
    """
    texts: dict[str, Any] = {"METHODS": "", "CASES": "", "RANGE": "", "COUNT": "", "END": ""}
    result = "{ i64, i64 }"
    for method_name, method in METHODS.items():
        if method_name == "random":
            continue
        name = f"method{method.number}"
        tables, first, state = "", "", "ptr %stream, i128 %state, i128 %increment"
        if method_name in ZIGGURATS:
            layer, offset, constants = ZIGGURATS[method_name]
            texts["METHODS"] += _ziggurat(name, method, layer, constants)
            first = f"  %{name}.tables = getelementptr i64, ptr %ziggurats, i64 {offset}\n"
            tables, state = f"ptr %{name}.tables, ", "i128 %state, i128 %increment, i64 %first"
        else:
            texts["METHODS"] += _words(name, method)
        if method.bits:
            texts["METHODS"] += read_llvm(
                __file__,
                "range",
                NAME=name,
                TYPE=_type_of(method.dtype),
                BYTES=method.dtype.itemsize,
                COUNT=BLOCK * 64 // method.bits,
                BLOCK=BLOCK,
                TABLES="ptr %tables, " if tables else "",
            )
        texts["CASES"] += f" i64 {method.number}, label %{name}"
        out = f"ptr %out, ptr %stream, i64 %first, i64 %last, {tables}ptr %distances"
        call = f"call void @{name}.range({out})" if method.bits else f"call i128 @{name}.range({out}, i1 %room)"
        texts["RANGE"] += f"{name}:\n{first}  {call}\n  ret void\n"
        count = f"call {result} @{name}.count({state}, {tables}ptr %distances)"
        texts["COUNT"] += f"{name}:\n{first}  %{name}.found = {count}\n  ret {result} %{name}.found\n"
        end = f"ptr %slots, ptr %stream, i64 %end, {tables}ptr %distances"
        texts["END"] += f"{name}:\n{first}  call void @{name}.end({end})\n  ret void\n"
    return texts


def _ziggurat(name: str, method: Drawing, layer: str, constants: dict[str, object]) -> str:
    bits, digits, kind = method.bits or 64, np.finfo(method.dtype).nmant + 1, _type_of(method.dtype)
    half = kind == "float"
    widen = "fpext float {} to double" if half else "fadd double {}, -0.0"
    known = constants | {
        "NAME": name,
        "TYPE": kind,
        "WORD": f"i{bits}",
        "BITS": bits,
        "BLOCK": BLOCK,
        "WORDS": BLOCK * 64 // bits,
        "UNUSED": bits - digits,
        "UNIT": 2.0**-digits,
        "SIGN": -1 << (bits - 1),
        "SIGN_SHIFT": bits - 9,
        "POSITION": (1 << (digits - 1)) - 1,
        "SUFFIX": "f" if half else "",
        "SHIFTED": _narrowed("%shifted", "i64", f"i{bits}"),
        "WIDE_X": widen.format("%x"),
        "WIDE_POINT": widen.format("%point"),
    }
    shared = read_llvm(__file__, "ziggurat", known, LAYER=read_llvm(__file__, f"layer_{layer}", known))
    return shared + read_llvm(__file__, "half_ziggurat" if half else "whole_ziggurat", known)


def _words(name: str, method: Drawing) -> str:
    word, kind = f"i{method.bits}", _type_of(method.dtype)
    if method.dtype.kind == "f":
        element = read_llvm(__file__, "positive_element" if kind == "double" else "float_element", NAME=name)
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
    sizes = {"BITS": method.bits, "COUNT": count, "BLOCK": BLOCK}
    return read_llvm(__file__, "words", NAME=name, ELEMENT=element, TYPE=kind, WORD=word, **sizes)


def _type_of(dtype: np.dtype) -> str:
    return {"f8": "double", "f4": "float"}.get(dtype.str[1:], f"i{8 * dtype.itemsize}")


def _narrowed(value: str, kind: str, target: str) -> str:
    return f"add {kind} {value}, 0" if kind == target else f"trunc {kind} {value} to {target}"
