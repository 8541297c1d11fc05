"""Ops that compute random numbers from their positions in the output.

They consist of 128-bit arithmetic on pairs of words, and output functions.

`weft.dsl.arrays.random_arrays` composes these ops. The ops whose names begin with "_random" return the numbers. An
array of such numbers is cheap to recompute, so it is not materialized merely because a variable still refers to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from weft.codegen.ops.definition import OpDef
from weft.codegen.ops.pair_functions import Real, operator_methods

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from weft.codegen.kernel_ir.builder import KernelBuilder
    from weft.codegen.kernel_ir.operation import Value

_WORD = np.dtype(np.uint64)
# NumPy's constants of PCG64DXSM and Philox4x64 (Salmon et al. 2011).
_CHEAP = 0xDA942042E4DD58B5
_FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
ROUNDS = 10
# NumPy's functions for ops that have other names.
_UFUNCS = {"_shift_left": "left_shift", "_shift_right_logical": "right_shift"}


class _Number(Real):
    """A value with Python's operators. It is a value of the kernel that `b` builds, or a NumPy array if `b` is None.

    The same formula thus serves as expansion and as reference.
    """

    __slots__ = ()

    def like(self, number: Self | float) -> Self:
        """Return `number` as a constant with the dtype of `self`. If `number` is already a `_Number`, return it unchanged."""
        if self.b is not None or isinstance(number, Real):
            return super().like(number)
        return type(self)(None, self.value.dtype.type(number))

    def of(self, name: str, *others: Self | float) -> Self:
        if self.b is not None:
            return super().of(name, *others)
        operands = [self.value, *(self.like(x).value for x in others)]
        return type(self)(None, getattr(np, _UFUNCS.get(name, name))(*operands))

    def cast(self, dtype: DTypeLike) -> _Number:
        return _Number(self.b, self.value.astype(dtype) if self.b is None else self.b.cast(self.value, dtype))

    __xor__ = operator_methods("bitwise_xor")[0]
    __lshift__ = operator_methods("_shift_left")[0]
    __rshift__ = operator_methods("_shift_right_logical")[0]

    def is_less(self, other: _Number) -> _Number:
        """Return 1 if this 64-bit word is less than `other`, otherwise 0."""
        return self.of("less", other).cast(_WORD)


def _high(x: _Number, y: Any) -> _Number:
    """Return the upper 64 bits of the product of two 64-bit words."""
    y_low, y_high = (y & 0xFFFFFFFF, y >> 32)
    x_low, x_high = x & 0xFFFFFFFF, x >> 32
    middle = x_high * y_low + (x_low * y_low >> 32)
    other = x_low * y_high + (middle & 0xFFFFFFFF)
    return x_high * y_high + (middle >> 32) + (other >> 32)


def _wide_product(x_low: _Number, x_high: _Number, y_low: _Number, y_high: _Number) -> _Number:
    return _high(x_low, y_low) + x_low * y_high + x_high * y_low


def _wide_sum(x_low: _Number, x_high: _Number, y_low: _Number, y_high: _Number) -> _Number:
    return x_high + y_high + (x_low + y_low).is_less(x_low)


def _pcg64(low: _Number, high: _Number) -> _Number:
    bits, turns = low ^ high, high >> 58
    return bits >> turns | bits << ((turns ^ 63) + 1 & 63)


def _pcg64dxsm(low: _Number, high: _Number) -> _Number:
    folded = (high ^ high >> 32) * _CHEAP
    return (folded ^ folded >> 48) * (low | 1)


def _round(words: list[_Number]) -> list[_Number]:
    a, b, c, d, x, y = words
    second, first = _high(c, _FACTORS[1]), _high(a, _FACTORS[0])
    return [second ^ b ^ x, c * _FACTORS[1], first ^ d ^ y, a * _FACTORS[0], x + _WEYL[0], y + _WEYL[1]]


def _output_of(words: list[_Number], index: _Number) -> _Number:
    """Return ``words[index]`` for an index from 0 to 3."""
    found = words[0] & 0
    for k, word in enumerate(words[:4]):
        difference = index ^ k
        found = found | word * ((difference | difference >> 1) & 1 ^ 1)
    return found


def _begin(low: _Number, high: _Number, key_low: _Number, key_high: _Number) -> list[_Number]:
    return [low >> 2 | high << 62, high >> 2, low & 0, low & 0, key_low, key_high]


def _philox(b: KernelBuilder, low: Value, high: Value, key_low: Value, key_high: Value) -> Value:
    words = _begin(*(_Number(b, value) for value in (low, high, key_low, key_high)))
    with b.loop(b.constant(ROUNDS), "serial", initial=[word.value for word in words]) as loop:
        loop.yield_(*(word.value for word in _round([_Number(b, value) for value in loop.carried])))
    result: Value = _output_of([_Number(b, value) for value in loop.results], _Number(b, low) & 3).value
    return result


def _philox_reference(low: np.ndarray, high: np.ndarray, key_low: Any, key_high: Any) -> Any:
    words = _begin(*(_Number(None, np.asarray(value)) for value in (low, high, key_low, key_high)))
    for _ in range(ROUNDS):
        words = _round(words)
    return _output_of(words, _Number(None, np.asarray(low)) & 3).value


def _op(name: str, loop: str, doc: str, formula: Callable[..., _Number], cost: int) -> OpDef:
    """Return the op that computes `formula` for the types in `loop`, such as ``QQ->Q``."""
    return OpDef(
        name,
        doc,
        loops=(loop,),
        reference=lambda *values: formula(*(_Number(None, np.asarray(value)) for value in values)).value,
        expand=lambda b, *values: formula(*(_Number(b, value) for value in values)).value,
        cost=cost,
    )


def _unit(bits: _Number) -> _Number:
    return (bits >> 11).cast(np.float64) * 2.0**-53


def _float64(bits: _Number, scale: _Number, loc: _Number) -> _Number:
    return _unit(bits) * scale + loc


def _triangular(bits: _Number, left: _Number, mode: _Number, right: _Number) -> _Number:
    unit, base, rising = _unit(bits), right - left, mode - left
    below = unit.of("less_equal", rising / base)
    falling = (unit.like(1.0) - unit) * ((right - mode) * base)
    root = below.of("where", unit * (rising * base), falling).of("sqrt")
    return below.of("where", left + root, right - root)


def _piece(bits: _Number, position: _Number, width: int) -> _Number:
    """Extract from a random word the bits that the draw at `position` uses.

    Each draw uses `width` bits. The first draw uses the lowest bits.
    """
    if width == 64:
        return bits
    return bits >> (position & 64 // width - 1) * width & (1 << width) - 1


def _float32(bits: _Number, position: _Number) -> _Number:
    return (_piece(bits, position, 32) >> 8).cast(np.float32) * 2.0**-24


def _skip(word: _Number, index: _Number, rejected: _Number) -> _Number:
    return word + (index.is_less(rejected) ^ 1)


def _integers(dtype: np.dtype, width: int) -> OpDef:
    def formula(bits: _Number, position: _Number, most: _Number, low: _Number) -> _Number:
        word = _piece(bits, position, width)
        if width < 64:
            found = (word * (most + 1) >> width) + low
        else:
            product = word * most
            found = _high(word, most) + (product + word).is_less(product) + low
        return found.cast(dtype)

    doc = f"Return a random {dtype} in a range that begins at an integer, chosen by {width} of the bits."
    return _op(f"_random_{dtype}_{width}", f"QQQQ->{dtype.char}", doc, formula, 6)


_INTEGERS = [(64, "q"), (32, "q"), (32, "i"), (16, "h"), (8, "b")]
ROWS = (
    _op("_wide_product", "QQQQ->Q", "Return the high word of the product of two pairs of words.", _wide_product, 16),
    _op("_wide_sum", "QQQQ->Q", "Return the high word of the sum of two pairs of words.", _wide_sum, 5),
    _op(
        "_skip",
        "QQQ->Q",
        "Return the word index, plus 1 unless the element precedes the one whose word was rejected.",
        _skip,
        3,
    ),
    _op("_pcg64", "QQ->Q", "Return the output of a state of PCG64.", _pcg64, 6),
    _op("_pcg64dxsm", "QQ->Q", "Return the output of a state of PCG64DXSM.", _pcg64dxsm, 8),
    OpDef(
        "_philox",
        "Return the output of Philox4x64 at a position, for a key.",
        loops=("QQQQ->Q",),
        reference=_philox_reference,
        expand=_philox,
        cost=300,
    ),
    _op("_random_float64", "Qdd->d", "Return a random float64 from 64 bits, scaled and shifted.", _float64, 5),
    _op(
        "_random_triangular",
        "Qddd->d",
        "Return a random float64 of a triangular distribution, from 64 bits, the ends and the mode.",
        _triangular,
        20,
    ),
    _op("_random_float32", "QQ->f", "Return a random float32 in [0, 1) from half of 64 bits.", _float32, 6),
    *(_integers(np.dtype(code), width) for width, own in _INTEGERS for code in (own, own.upper())),
)
