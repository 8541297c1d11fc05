"""Test kernels for values: tuples, dataclasses, scalars, operators and printing."""

# mypy: ignore-errors

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

import numpy as np

from tests.dsl.kernel.probes import definition
from tests.dsl.kernel.probes.definition import FLOATS, INTS, IOUT, OUT, probe

# -- tuples and dataclasses -----------------------------------------------------------------------


@probe(INTS, IOUT)
def tuple_packing(x, out):
    t = (x[0], x[1], 3)
    a, b, c = t
    out[0], out[1] = b, a
    out[2] = c + len(t)


@probe(INTS, IOUT)
def nested_unpacking(x, out):
    (a, (b, c)), d = (x[0], (x[1], x[2])), x[3]
    out[0] = a
    out[1] = b
    out[2] = c
    out[3] = d
    for i, (p, q) in enumerate(((1, 2), (3, 4))):
        out[4 + i] = p * q


@probe(INTS, IOUT)
def swap_elements(x, out):
    a, b = x[0], x[1]
    a, b = b, a
    out[0], out[1] = a, b
    out[2], out[3] = out[1], out[0]


@probe(INTS, IOUT)
def star_unpacking(x, out):
    t = (x[0], x[1], x[2], x[3])
    first, *rest = t
    *most, last = t
    a, *middle, b = t
    out[0] = first + len(rest)
    out[1] = rest[1]
    out[2] = most[0] + last
    out[3] = middle[1] + a + b


@probe(INTS, IOUT)
def star_in_a_call(x, out):
    def weigh(a, b, c):
        return a + 2 * b + 3 * c

    t = (x[1], x[2])
    out[0] = weigh(x[0], *t)
    out[1] = weigh(*(1, 2, 3))


@probe(INTS, IOUT)
def function_of_any_number(x, out):
    def total(first, *others):
        result = first
        for v in others:
            result += v
        return result + 100 * len(others)

    out[0] = total(x[0])
    out[1] = total(x[0], x[1], x[2])


@probe(INTS, IOUT)
def keywords_and_defaults(x, out):
    def f(a, b=10, *, c=100):
        return a + b + c

    out[0] = f(x[0])
    out[1] = f(x[0], c=1)
    out[2] = f(b=2, a=x[0])
    out[3] = f(x[0], 1, c=3)


@probe(INTS, IOUT)
def tuple_index_and_slice(x, out):
    t = (x[0], 2, x[2], 4)
    out[0] = t[0]
    out[1] = t[-1]
    u = t[1:3]
    out[2] = u[0] + u[1]
    out[3] = t[::-1][0]
    out[4] = len(t[:2])


@probe(INTS, IOUT)
def tuple_index_at_run_time(x, out):
    t = (10, 20, 30, 40)
    for i in range(x.size):
        out[i] = t[i % 4]


@probe(INTS, IOUT)
def tuple_concatenation(x, out):
    t = (x[0],) + (1, 2)
    u = t * 2
    out[0] = len(u)
    out[1] = u[3] + u[5]


@probe(INTS, IOUT)
def tuple_membership(x, out):
    for i in range(x.size):
        if x[i] in (5, 7, 100):
            out[i] = 1
        if x[i] not in (0, 1):
            out[i] += 2


@probe(INTS, IOUT)
def tuple_comparison(x, out):
    for i in range(x.size):
        out[i] = ((x[i] > 0, i) == (True, 2)) + 2 * ((i, x[i]) < (3, 7)) + 4 * ((i,) != (3,))


@probe(INTS, IOUT)
def tuple_from_function(x, out):
    def both(a, b):
        return a + b, a - b

    for i in range(x.size):
        s, d = both(x[i], i)
        out[i] = s * d


@probe((3, 2.5, (1, 2)), OUT)
def tuple_argument(t, out):
    out[0] = t[0]
    out[1] = t[1]
    a, b = t[2]
    out[2] = a + b


Point = namedtuple("Point", "x y")


class Weights(NamedTuple):
    """A named tuple with annotated fields and a default value."""

    left: float
    right: float = 0.25


@probe(Point(2, 3.5), OUT)
def named_tuple_argument(p, out):
    out[0] = p.x
    out[1] = p.y
    out[2] = p[0] + p[1]
    x, y = p
    out[3] = x * y


@probe(FLOATS, OUT)
def named_tuple_made(x, out):
    for i in range(x.size):
        p = Point(x[i], y=i)
        w = Weights(0.5)
        out[i] = p.x * w.left + p.y * w.right


@dataclass
class Physics:
    """Constants of a physical simulation."""

    gravity: float
    steps: int
    start: tuple[float, float] = (1.0, 2.0)


@probe(Physics(9.81, 3), OUT)
def dataclass_argument(physics, out):
    speed = 0.0
    for k in range(physics.steps):
        speed += physics.gravity * physics.start[1]
    out[0] = speed


@dataclass
class Grid:
    """A dataclass with an array and a scalar."""

    values: np.ndarray
    scale: float


@probe(Grid(FLOATS, 2.0), OUT)
def dataclass_of_arrays(grid, out):
    for i in range(grid.values.shape[0]):
        out[i] = grid.values[i] * grid.scale


class Colour(IntEnum):
    """An enum of integers."""

    RED = 1
    GREEN = 5


class Mode(Enum):
    """An enum whose members are not integers."""

    FAST = "fast"
    SLOW = "slow"


@probe(INTS, IOUT)
def int_enum(x, out):
    for i in range(x.size):
        if x[i] == Colour.GREEN:
            out[i] = Colour.RED
        elif x[i] > Colour.GREEN:
            out[i] = Colour.GREEN + 1


@probe(Colour.GREEN, IOUT)
def enum_argument(colour, out):
    if colour == Colour.GREEN:
        out[0] = 1
    if colour != Colour.RED:
        out[1] = colour


@probe(IOUT)
def enum_constant(out):
    mode = Mode.FAST
    if mode is Mode.FAST:
        out[0] = 1
    if mode == Mode.SLOW:
        out[1] = 1


@probe(INTS, None, IOUT)
def none_argument(x, extra, out):
    for i in range(x.size):
        out[i] = x[i]
        if extra is not None:
            out[i] += extra[i]


@probe(INTS, IOUT)
def optional_parameter(x, out):
    def scaled(v, by=None):
        if by is None:
            return v
        return v * by

    out[0] = scaled(x[0])
    out[1] = scaled(x[1], 3)
    out[2] = scaled(x[2], by=x[0])


# -- numbers --------------------------------------------------------------------------------------


@probe(INTS, FLOATS, OUT)
def isinstance_of_numbers(x, y, out):
    def kind(v):
        if isinstance(v, (int, np.integer)):
            return 1
        if isinstance(v, float):
            return 2
        return 3

    out[0] = kind(x[0])
    out[1] = kind(y[0])
    out[2] = kind((1, 2))
    out[3] = kind(7)


@probe(FLOATS, OUT)
def casts(x, out):
    out[0] = int(x[1])
    out[1] = int(7.9) + int(-7.9)
    out[2] = float(3) / 2
    out[3] = bool(x[0]) + bool(x[4])
    out[4] = int(True) + float(False)


@probe(INTS, IOUT)
def truth_values(x, out):
    for i in range(x.size):
        if x[i]:
            out[i] = 1
        if not x[i]:
            out[i] = -1
        out[i] += int(x[i] > 0) + int(x[i] > 5) + True


@probe(INTS, IOUT)
def floor_division_and_modulo(x, out):
    for i in range(x.size):
        out[i] = x[i] // 3 * 1000 + x[i] % 3
        out[i] += (x[i] // -4) * 100000 + x[i] % -4


@probe(FLOATS, OUT)
def float_floor_division_and_modulo(x, out):
    for i in range(x.size):
        out[i] = x[i] // 0.75 + 10 * (x[i] % 2.5) + 100 * (x[i] % -3.0)


@probe(INTS, FLOATS, OUT)
def divmod_of_numbers(x, y, out):
    for i in range(4):
        q, r = divmod(x[i], 5)
        out[i] = 10 * q + r
        q, r = divmod(y[i], 0.75)
        out[i + 4] = 10 * q + r


@probe(INTS, OUT)
def true_division(x, out):
    for i in range(x.size):
        out[i] = x[i] / 8 + 1 / 3


@probe(INTS, FLOATS, OUT, ulps=1)
def powers(x, y, out):
    out[0] = x[0] ** 3
    out[1] = y[2] ** 2
    out[2] = y[3] ** -1
    out[3] = y[5] ** y[2]
    out[4] = 2**10
    out[5] = pow(x[2], 2)
    out[6] = y[5] ** 0.5


@probe(FLOATS, OUT)
def rounding(x, out):
    out[0] = round(x[0])
    out[1] = round(x[1])
    out[2] = round(2.5) + round(3.5)
    out[3] = round(x[3], 1)
    out[4] = round(1234.5678, 2)
    out[5] = round(1250.0, -2)


@probe(INTS, FLOATS, OUT)
def least_and_greatest(x, y, out):
    out[0] = min(x[0], x[1])
    out[1] = max(x[0], x[1], x[2])
    out[2] = max(x[0], y[0])
    out[3] = min(0, y[1])
    out[4] = max((3, x[3], 2))
    out[5] = min(y[0], 0.25)
    out[6] = abs(x[1]) + abs(y[1])


@probe(INTS, IOUT)
def sums_and_quantifiers(x, out):
    t = (x[0], x[1], x[2])
    out[0] = sum(t)
    out[1] = sum(t, 100)
    out[2] = any((x[3] > 0, x[4] > 0))
    out[3] = all((x[0] > 0, x[1] > 0))
    out[4] = all(t) + any(t)


@probe(INTS, IOUT)
def quantifiers_over_arrays(x, out):
    out[0] = sum(x)
    out[1] = min(x)
    out[2] = max(x)
    out[3] = any(x)
    out[4] = all(x)


@probe(INTS, IOUT)
def bit_operators(x, out):
    for i in range(x.size):
        out[i] = (x[i] & 12) | (x[i] ^ 5) ^ ~x[i]
        out[i] += (x[i] << 3) - (x[i] >> 1)


@probe(INTS, IOUT)
def augmented_assignments(x, out):
    for i in range(x.size):
        v = x[i]
        v += 3
        v -= 1
        v *= 5
        v //= 2
        v %= 1000
        v <<= 2
        v >>= 1
        v |= 1
        v &= 1023
        v ^= 7
        out[i] += v
        out[i] *= 2


@probe(FLOATS, OUT)
def float_augmented_assignments(x, out):
    for i in range(x.size):
        v = x[i]
        v /= 4
        v **= 2
        v -= 0.5
        out[i] -= v


@probe(np.array([120, -128, 127, 5], np.int8), np.zeros(4, np.int8))
def int8_wraps(x, out):
    for i in range(x.size):
        out[i] = x[i] + x[i] * np.int8(3)


@probe(np.array([3, 250, 0], np.uint8), np.zeros(3, np.uint8), np.zeros(3, np.uint8))
def uint8_wraps(x, out, more):
    for i in range(x.size):
        out[i] = x[i] - np.uint8(5)
        more[i] = x[i] * 2 + 1


@probe(np.array([30000, -30000], np.int16), np.zeros(2, np.int16))
def int16_wraps(x, out):
    for i in range(x.size):
        out[i] = x[i] + x[i]


@probe(np.array([0xDEADBEEF, 12345, 0xFFFFFFFF], np.uint32), np.zeros(3, np.uint32))
def uint32_hash(x, out):
    for i in range(x.size):
        h = x[i]
        h ^= h >> 16
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> 13
        h *= np.uint32(0xC2B2AE35)
        out[i] = h ^ (h >> 16)


@probe(np.array([2**31 - 1, -(2**31)], np.int32), np.zeros(2, np.int32))
def int32_stays_int32(x, out):
    for i in range(x.size):
        v = x[i] + 1
        out[i] = v // 2


@probe(np.array([2**63 - 1, 2**62], np.int64), np.zeros(2, np.int64))
def int64_wraps(x, out):
    for i in range(x.size):
        out[i] = x[i] * 3 + 7


@probe(np.array([2**64 - 1, 5], np.uint64), np.zeros(2, np.uint64))
def uint64_values(x, out):
    for i in range(x.size):
        out[i] = x[i] // np.uint64(3) + (x[i] >> np.uint64(60)) + (x[i] > 7)


@probe(np.array([1.1, -0.3, 1e20], np.float32), np.array([0.1, 0.7, 3], np.float32), np.zeros(3, np.float32))
def weak_floats(x, y, out):
    for i in range(x.size):
        out[i] = 0.5 * x[i] + 2 * y[i] - 0.1


@probe(np.array([1.1, -0.3], np.float32), np.array([0.1, 0.7]), np.zeros(2))
def float32_and_float64(x, y, out):
    for i in range(x.size):
        out[i] = x[i] * y[i] + np.float32(0.1)


@probe(np.array([1.5, -0.3, 60000], np.float16), np.zeros(3, np.float16))
def float16_arithmetic(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i] + 1 if x[i] < 2 else x[i] / np.float16(3)


@probe(FLOATS, np.zeros(8, np.float32), np.zeros(8, np.int32))
def numpy_casts(x, single, whole):
    for i in range(x.size):
        if abs(x[i]) < 100:
            single[i] = np.float32(x[i]) * np.float32(0.1)
            whole[i] = np.int32(x[i]) + np.uint8(200)


@probe(np.array([1, 0, 1], np.bool_), np.zeros(3, np.bool_), IOUT)
def booleans(x, out, count):
    for i in range(x.size):
        out[i] = not x[i]
        count[0] += x[i]
        if x[i] and i > 0:
            count[1] = i
    out[1] = x[0] & x[1] | x[2]


@probe(np.array([1 + 2j, -0.5j, 3]), np.zeros(3, complex), OUT)
def complex_numbers(z, out, parts):
    for i in range(z.size):
        out[i] = z[i] * z[i] + 2 - z[i].conjugate() * 1j
        parts[i] = z[i].real - z[i].imag
    out[2] /= z[0]
    parts[4] = z[0] == complex(1, 2)


@probe(np.array([3 + 4j, -2j], np.complex64), np.zeros(2, np.complex64), np.zeros(2, np.float32))
def single_complex_numbers(z, out, size):
    for i in range(z.size):
        out[i] = -z[i] + 0.5
        size[i] = abs(z[i])


# -- globals and printing -------------------------------------------------------------------------

SCALE = 3
RATIO = np.float32(0.5)
SHAPE = (2, 4)
TABLE = np.array([2.0, 3.0, 5.0, 7.0])
NESTED = ((1, 2), (3, 4))
TEXT = "weft"


@probe(FLOATS, OUT)
def global_constants(x, out):
    for i in range(SHAPE[0] * SHAPE[1]):
        out[i] = x[i] * SCALE + RATIO + NESTED[1][0]


@probe(FLOATS, OUT)
def global_array(x, out):
    for i in range(x.size):
        out[i] = x[i] * TABLE[i % 4] + TABLE[-1] + TABLE.size


@probe(FLOATS, OUT)
def attribute_of_module(x, out):
    out[0] = x[0] + definition.FLOATS[1] + definition.IOUT.size


class Settings:
    """A class whose attributes are constants."""

    step = 0.125
    count = 4


@probe(OUT)
def attribute_of_class(out):
    for i in range(Settings.count):
        out[i] = i * Settings.step


@probe(IOUT)
def constant_strings(out):
    if TEXT == "weft":
        out[0] = 1
    out[1] = len(TEXT)


def _make(factor, offsets):
    @probe(FLOATS, OUT)
    def captured_variables(x, out):
        for i in range(x.size):
            out[i] = factor * x[i] + offsets[i % 2]

    return captured_variables


_make(2.5, np.array([10.0, 20.0]))


@probe(INTS, printed="5 -3 12\ntext 0.5\n")
def print_values(x):
    print(x[0], x[1], 12)
    print("text", 0.5)


@probe(INTS, FLOATS, printed="x0=5, half 2.5; braces {}\n-1.25 is 5\n")
def print_f_strings(x, y):
    print(f"x0={x[0]}, half {x[0] / 2}; braces {{}}")
    print(f"{y[1]} is {x[0]}")


@probe(INTS, FLOATS, printed="0005|  -1.250|-1.25e+00|2a 0x2a\n")
def print_formats(x, y):
    print(f"{x[0]:04d}|{y[1]:8.3f}|{y[1]:.2e}|{x[0] + 37:x} {42:#x}")


@probe(INTS, printed="12|True\nend")
def print_with_separator(x):
    print(x[2], x[2] > 3, sep="|")
    print("end", end="")
