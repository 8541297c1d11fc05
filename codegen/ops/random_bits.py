"""Ops that compute the random number at a given position of a generator's output.

They consist of 128-bit arithmetic on pairs of words, and output functions.

`weft.dsl.arrays.random_arrays` composes these ops. The ops whose names begin with "_random" return the numbers. An
array of such numbers is cheap to recompute, so the array is not materialized for a variable that still refers to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen.ops.definition import OpDef

if TYPE_CHECKING:
    from weft.codegen.kernel_ir.builder import KernelBuilder
    from weft.codegen.kernel_ir.operation import Value

_WORD = np.dtype(np.uint64)
# NumPy's constants of PCG64DXSM and Philox4x64 (Salmon et al. 2011).
_CHEAP = 0xDA942042E4DD58B5
_FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
ROUNDS = 10


class _Words:
    """64-bit words in a kernel or in a NumPy array, with the same operators for both."""

    # The same formula thus serves as expansion and as reference. Python numbers become 64-bit constants.

    def __init__(self, value: Any, b: KernelBuilder | None = None) -> None:
        self.value = value
        self.b = b

    def _op(self, name: str, other: Any) -> _Words:
        operand = other.value if isinstance(other, _Words) else other
        if self.b is None:
            function = getattr(np, {"_shift_left": "left_shift", "_shift_right_logical": "right_shift"}.get(name, name))
            return _Words(function(self.value, operand if isinstance(other, _Words) else np.uint64(operand)))
        if not isinstance(other, _Words):
            operand = self.b.constant(other, _WORD)
        return _Words(self.b.op(name, self.value, operand), self.b)

    def __add__(self, other: Any) -> _Words:
        return self._op("add", other)

    def __mul__(self, other: Any) -> _Words:
        return self._op("multiply", other)

    def __and__(self, other: Any) -> _Words:
        return self._op("bitwise_and", other)

    def __or__(self, other: Any) -> _Words:
        return self._op("bitwise_or", other)

    def __xor__(self, other: Any) -> _Words:
        return self._op("bitwise_xor", other)

    def __lshift__(self, other: Any) -> _Words:
        return self._op("_shift_left", other)

    def __rshift__(self, other: Any) -> _Words:
        return self._op("_shift_right_logical", other)

    def is_less(self, other: _Words) -> _Words:
        """Return 1 if this 64-bit word is less than `other`, otherwise 0."""
        if self.b is None:
            return _Words((self.value < other.value).astype(np.uint64))
        less = self.b.op("less", self.value, other.value, dtype=np.bool_)
        return _Words(self.b.cast(less, _WORD), self.b)


def _high(x: _Words, y: Any) -> _Words:
    """Return the upper 64 bits of the 128-bit product of two 64-bit words.

    The product is computed from products of 32-bit halves.
    """
    y_low, y_high = (y & 0xFFFFFFFF, y >> 32)
    x_low, x_high = x & 0xFFFFFFFF, x >> 32
    middle = x_high * y_low + (x_low * y_low >> 32)
    other = x_low * y_high + (middle & 0xFFFFFFFF)
    return x_high * y_high + (middle >> 32) + (other >> 32)


def _wide_product(x_low: _Words, x_high: _Words, y_low: _Words, y_high: _Words) -> _Words:
    return _high(x_low, y_low) + x_low * y_high + x_high * y_low


def _wide_sum(x_low: _Words, x_high: _Words, y_low: _Words, y_high: _Words) -> _Words:
    return x_high + y_high + (x_low + y_low).is_less(x_low)


def _pcg64(low: _Words, high: _Words) -> _Words:
    bits, turns = low ^ high, high >> 58
    return bits >> turns | bits << ((turns ^ 63) + 1 & 63)


def _pcg64dxsm(low: _Words, high: _Words) -> _Words:
    folded = (high ^ high >> 32) * _CHEAP
    return (folded ^ folded >> 48) * (low | 1)


def _round(words: list[_Words]) -> list[_Words]:
    a, b, c, d, x, y = words
    second, first = _high(c, _FACTORS[1]), _high(a, _FACTORS[0])
    return [second ^ b ^ x, c * _FACTORS[1], first ^ d ^ y, a * _FACTORS[0], x + _WEYL[0], y + _WEYL[1]]


def _output_of(words: list[_Words], index: _Words) -> _Words:
    """Return ``words[index]`` for an index from 0 to 3."""
    found = words[0] & 0
    for k, word in enumerate(words[:4]):
        difference = index ^ k
        found = found | word * ((difference | difference >> 1) & 1 ^ 1)
    return found


def _begin(low: _Words, high: _Words, key_low: _Words, key_high: _Words) -> list[_Words]:
    return [low >> 2 | high << 62, high >> 2, low & 0, low & 0, key_low, key_high]


def _philox(b: KernelBuilder, low: Value, high: Value, key_low: Value, key_high: Value) -> Value:
    words = _begin(*(_Words(value, b) for value in (low, high, key_low, key_high)))
    with b.loop(b.constant(ROUNDS), "serial", initial=[word.value for word in words]) as loop:
        loop.yield_(*(word.value for word in _round([_Words(value, b) for value in loop.carried])))
    result: Value = _output_of([_Words(value, b) for value in loop.results], _Words(low, b) & 3).value
    return result


def _philox_reference(low: np.ndarray, high: np.ndarray, key_low: Any, key_high: Any) -> Any:
    words = _begin(*(_Words(np.asarray(value)) for value in (low, high, key_low, key_high)))
    for _ in range(ROUNDS):
        words = _round(words)
    return _output_of(words, _Words(np.asarray(low)) & 3).value


def _words_op(name: str, arity: int, doc: str, formula: Callable[..., _Words], cost: int) -> OpDef:
    return OpDef(
        name,
        arity,
        doc,
        loops=(f"{'Q' * arity}->Q",),
        reference=lambda *values: formula(*(_Words(np.asarray(value)) for value in values)).value,
        expand=lambda b, *values: formula(*(_Words(value, b) for value in values)).value,
        cost=cost,
    )


def _float64(b: KernelBuilder, bits: Value, scale: Value, loc: Value) -> Value:
    unit = b.op("multiply", b.cast((_Words(bits, b) >> 11).value, np.float64), b.constant(2.0**-53, np.float64))
    return b.op("add", b.op("multiply", unit, scale), loc)


def _float64_reference(bits: np.ndarray, scale: Any, loc: object) -> Any:
    return (np.asarray(bits) >> np.uint64(11)) * 2.0**-53 * scale + loc


def _triangular(b: KernelBuilder, bits: Value, left: Value, mode: Value, right: Value) -> Value:
    unit = b.op("multiply", b.cast((_Words(bits, b) >> 11).value, np.float64), b.constant(2.0**-53, np.float64))
    base, rising = b.op("subtract", right, left), b.op("subtract", mode, left)
    below = b.op("less_equal", unit, b.op("divide", rising, base), dtype=np.bool_)
    rest = b.op("subtract", b.constant(1.0, np.float64), unit)
    falling = b.op("multiply", rest, b.op("multiply", b.op("subtract", right, mode), base))
    square = b.op("where", below, b.op("multiply", unit, b.op("multiply", rising, base)), falling)
    root = b.op("sqrt", square)
    return b.op("where", below, b.op("add", left, root), b.op("subtract", right, root))


def _triangular_reference(bits: np.ndarray, left: np.ndarray, mode: Any, right: np.ndarray) -> Any:
    unit = (np.asarray(bits) >> np.uint64(11)) * 2.0**-53
    base = right - left
    below = unit <= (mode - left) / base
    rising, falling = np.sqrt(unit * ((mode - left) * base)), np.sqrt((1.0 - unit) * ((right - mode) * base))
    return np.where(below, left + rising, right - falling)


def _piece(bits: _Words, position: _Words, width: int) -> _Words:
    """Extract from a random word the bits that the draw at `position` uses.

    Each draw uses `width` bits. The first draw uses the lowest bits.
    """
    if width == 64:
        return bits
    return bits >> (position & 64 // width - 1) * width & (1 << width) - 1


def _float32(b: KernelBuilder, bits: Value, position: Value) -> Value:
    upper = _piece(_Words(bits, b), _Words(position, b), 32) >> 8
    return b.op("multiply", b.cast(upper.value, np.float32), b.constant(2.0**-24, np.float32))


def _float32_reference(bits: Any, position: Any) -> Any:
    upper = _piece(_Words(np.asarray(bits)), _Words(np.asarray(position)), 32) >> 8
    return upper.value.astype(np.float32) * np.float32(2.0**-24)


def _skip(word: _Words, index: _Words, rejected: _Words) -> _Words:
    return word + (index.is_less(rejected) ^ 1)


def _integers(dtype: np.dtype, width: int) -> OpDef:
    def formula(bits: _Words, position: _Words, most: _Words, low: _Words) -> _Words:
        word = _piece(bits, position, width)
        if width < 64:
            return (word * (most + 1) >> width) + low
        product = word * most
        return _high(word, most) + (product + word).is_less(product) + low

    def expand(b: KernelBuilder, *values: Value) -> Value:
        return b.cast(formula(*(_Words(value, b) for value in values)).value, dtype)

    def reference(*values: Any) -> Any:
        return formula(*(_Words(np.asarray(value)) for value in values)).value.astype(dtype)

    return OpDef(
        f"_random_{dtype}_{width}",
        4,
        f"Return a random {dtype} in a range that begins at an integer, chosen by {width} of the bits.",
        loops=(f"QQQQ->{dtype.char}",),
        reference=reference,
        expand=expand,
        cost=6,
    )


_INTEGERS = [(64, "q"), (32, "q"), (32, "i"), (16, "h"), (8, "b")]
ROWS = (
    _words_op("_wide_product", 4, "Return the high word of the product of two pairs of words.", _wide_product, 16),
    _words_op("_wide_sum", 4, "Return the high word of the sum of two pairs of words.", _wide_sum, 5),
    _words_op(
        "_skip",
        3,
        "Return the word index, plus 1 unless the element precedes the one whose word was rejected.",
        _skip,
        3,
    ),
    _words_op("_pcg64", 2, "Return the output of a state of PCG64.", _pcg64, 6),
    _words_op("_pcg64dxsm", 2, "Return the output of a state of PCG64DXSM.", _pcg64dxsm, 8),
    OpDef(
        "_philox",
        4,
        "Return the output of Philox4x64 at a position, for a key.",
        loops=("QQQQ->Q",),
        reference=_philox_reference,
        expand=_philox,
        cost=300,
    ),
    OpDef(
        "_random_float64",
        3,
        "Return a random float64 from 64 bits, scaled and shifted.",
        loops=("Qdd->d",),
        reference=_float64_reference,
        expand=_float64,
        cost=5,
    ),
    OpDef(
        "_random_triangular",
        4,
        "Return a random float64 of a triangular distribution, from 64 bits, the ends and the mode.",
        loops=("Qddd->d",),
        reference=_triangular_reference,
        expand=_triangular,
        cost=20,
    ),
    OpDef(
        "_random_float32",
        2,
        "Return a random float32 in [0, 1) from half of 64 bits.",
        loops=("QQ->f",),
        reference=_float32_reference,
        expand=_float32,
        cost=6,
    ),
    *(_integers(np.dtype(code), width) for width, own in _INTEGERS for code in (own, own.upper())),
)
