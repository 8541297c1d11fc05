"""Kernels that serve as tests of Python constructs. Numba's kernels do not support most of these constructs.

Examples are array methods, comprehensions, generator expressions, and methods of user classes.
"""

# mypy: ignore-errors

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tests.dsl.kernel.probes.definition import FLOATS, INTS, IOUT, OUT, probe
from weft import cuda

MATRIX = np.arange(12.0).reshape(3, 4)


@probe(INTS, FLOATS, OUT)
def array_methods(n, x, out):
    out[0] = n.sum()
    out[1] = n[:4].prod()
    out[2] = n.min() + n.max()
    out[3] = x[:4].mean()
    out[4] = n.argmin()
    out[5] = n.argmax()
    out[6] = n.all()
    out[7] = n.any()


@probe(MATRIX, OUT)
def methods_of_matrices(m, out):
    out[0] = m.sum()
    out[1] = m.max()
    out[2] = m[1].sum()
    out[3] = m[:, 2].argmax()
    out[4] = m.mean()


@probe(INTS, FLOATS, OUT)
def reductions_by_function(n, x, out):
    out[0] = np.sum(n)
    out[1] = np.prod(n[:3])
    out[2] = np.max(x)
    out[3] = np.min(n)
    out[4] = np.mean(x[:4])
    out[5] = np.argmax(n)
    out[6] = np.any(n)
    out[7] = np.all(n)


@probe(FLOATS, MATRIX)
def fill_method(x, m):
    x[2:5].fill(7)
    m[1].fill(-1)


@probe(INTS, FLOATS, OUT)
def dot_products(n, x, out):
    out[0] = np.dot(n, n)
    out[1] = np.dot(x[:3], x[3:6])


@probe(FLOATS, OUT)
def conversions_of_numbers(x, out):
    out[0] = x[3].astype(np.int32)
    out[1] = x[1].item()
    out[2] = type(x[0])(3)
    out[3] = x.dtype.type(2.5)
    out[4] = x.dtype.itemsize
    out[5] = np.dtype(np.int16).itemsize


@probe(INTS, IOUT)
def list_comprehension(x, out):
    squares = [x[i] * x[i] for i in range(4)]
    out[0] = squares[2]
    out[1] = len(squares)
    for i, value in enumerate(squares):
        out[2 + i] = value


@probe(INTS, IOUT)
def list_literals(x, out):
    values = [x[0], 2, x[2]]
    out[0] = values[0] + values[-1]
    out[1] = sum([1, 2, 3])
    a, b = [x[3], x[4]]
    out[2] = a + b
    for k in [5, 6]:
        out[k] = k


@probe(INTS, IOUT)
def generator_expressions(x, out):
    out[0] = sum(x[i] * 2 for i in range(x.size))
    out[1] = any(v > 50 for v in x)
    out[2] = all(v > -100 for v in x)
    out[3] = max(abs(v) for v in x)
    out[4] = sum(1 for v in x if v > 0)
    out[5] = sum(v for i, v in enumerate(x) if i % 2)


@probe(INTS, IOUT)
def functions_of_operator(x, out):
    out[0] = operator.add(x[0], x[1])
    out[1] = operator.mul(x[0], x[2])
    out[2] = operator.lt(x[1], x[0])
    out[3] = operator.neg(x[0])
    out[4] = operator.floordiv(x[2], 5)
    out[5] = operator.xor(x[0], x[2])
    out[6] = operator.getitem(x, 2)


@probe(INTS, IOUT)
def pieces_of_ranges(x, out):
    r = range(2, 20, 3)
    out[0] = len(r)
    out[1] = r[2]
    if x[0] in r:
        out[2] = 1
    if 7 not in r:
        out[3] = 1


@probe(FLOATS, OUT)
def number_limits(x, out):
    out[0] = np.iinfo(np.int32).max
    out[1] = np.finfo(np.float32).eps
    out[2] = np.finfo(np.float64).max
    out[3] = float("inf")
    out[4] = float("-2.5")


@dataclass(frozen=True)
class Ball:
    """A dataclass with a method and a property."""

    position: float
    speed: float

    def moved(self, time):
        return self.position + self.speed * time

    @property
    def energy(self):
        return self.speed * self.speed / 2


@probe(FLOATS, OUT, Ball(1.5, 2.0))
def methods_of_dataclasses(x, out, ball):
    out[0] = ball.moved(2)
    out[1] = ball.energy
    other = Ball(x[0], speed=x[3])
    out[2] = other.moved(1)
    third = replace(other, speed=4.0)
    out[3] = third.speed + third.position


class Complex(NamedTuple):
    """A named tuple with a method."""

    re: float
    im: float

    def size(self):
        return math.sqrt(self.re * self.re + self.im * self.im)


@probe(FLOATS, OUT)
def methods_of_named_tuples(x, out):
    z = Complex(3.0, 4.0)
    out[0] = z.size()
    out[1] = z._replace(re=x[0]).re


@probe(INTS, IOUT)
def bits_of_python_ints(x, out):
    out[0] = x[2].bit_count()
    for i in range(3):
        out[i + 1] = i.bit_length()
    out[4] = (13).bit_count()


@probe(INTS, FLOATS, OUT)
def comparisons_of_mixed_types(n, x, out):
    for i in range(n.size):
        out[i] = (n[i] < x[i]) + 2 * int(n[i] == x[i])


@probe(np.array([-1, 5], np.int32), np.array([1, 5], np.uint32), IOUT)
def comparisons_of_signs(a, b, out):
    for i in range(2):
        out[i] = a[i] < b[i]
        out[i + 2] = a[i] == b[i]


@probe(FLOATS, OUT)
def nested_functions_and_early_returns(x, out):
    def classify(v):
        def small(w):
            if w < 0:
                return True
            return w < 1

        if small(v):
            return 1.0
        for k in range(10):
            if k > v:
                return k * 1.0
        return -1.0

    for i in range(x.size):
        out[i] = classify(x[i])


@probe(INTS, IOUT)
def loops_that_return_from_functions(x, out):
    def first_above(values, limit):
        for i, v in enumerate(values):
            if v > limit:
                return i
        return -1

    out[0] = first_above(x, 10)
    out[1] = first_above(x, 1000)
    out[2] = first_above(x[5:], 50)


@probe(INTS, IOUT)
def constant_conditions_choose_code(x, out):
    def kind(v, scale=None):
        if scale is None:
            return v
        elif isinstance(scale, tuple):
            return v * scale[0] + scale[1]
        else:
            return v * scale

    out[0] = kind(x[0])
    out[1] = kind(x[0], 3)
    out[2] = kind(x[0], (2, 1))


@probe(np.zeros(4, np.complex128))
def complex_powers_and_parts(z):
    z[0] = (1 + 2j) * (3 - 1j)
    z[1] = z[0] ** 2
    z[2] = abs(3 + 4j)
    z[3] = z[0].conjugate() / 2


@probe(np.zeros(3, np.int64), want=lambda out: out.__setitem__(slice(None), [6, 24, 2]))
def shared_by_name(out):
    part = cuda.shared.array(shape=(2, 3), dtype=np.int64)
    own = cuda.local.array(4, np.int64)
    out[0] = part.size
    out[1] = part.strides[0]
    out[2] = own.ndim + 1


def mark_second(bodies, out):
    bodies["mass"][1] = out[0] = 1


@probe(np.zeros(3, [("mass", np.float64)]), IOUT, want=mark_second)
def owner_of_an_augmented_field(bodies, out):
    calls = 0

    def following():
        nonlocal calls
        calls += 1
        return calls

    bodies[following()].mass += 1
    out[0] = calls


@probe(FLOATS, IOUT, options={"debug": True})
def message_of_an_assertion_that_holds(x, out):
    calls = 0

    def called(value):
        nonlocal calls
        calls += 1
        return value

    assert x[0] > 0, f"{called(x[100])}"
    out[0] = calls


@probe(OUT)
def output_that_overlaps(out):
    out[0] = 1
    np.add(out[:-1], 10, out[1:])
    np.multiply(out[:4], 2, out[:4])


@probe(FLOATS, OUT)
def output_that_overlaps_several_operands(x, out):
    for k in range(out.size):
        out[k] = x[k]
    np.add(out[:-1], out[1:], out[1:])
    np.add(out[2:], out[1:-1], out[:-2])
    np.add(out[:2], out[6:], out[3:5])  # these parts do not overlap


@probe(FLOATS, OUT)
def loops_over_an_array_and_a_tuple(x, out):
    for k, (value, weight) in enumerate(zip(x, (1, 2.5, True), strict=False)):
        if value < 0:
            continue
        out[k] = value * weight
    for value, weight in zip(x[:2], (1, 2.5, True), strict=False):
        out[3] += value * weight
    else:
        out[4] = weight
    out[5] = sum(k * w for k, w in zip(range(x.size), (1, 2, 3), strict=False))


@probe(OUT, np.ones(2, np.float32))
def numpy_functions_of_python_numbers(out, x):
    out[0] = np.sqrt(2.3) * x[0] / 3
    out[1] = np.sqrt(x.size) * x[0] / 3
    out[2] = np.where(x[0] > 0, 0.1, 0.2) * x[0]
    out[3] = np.clip(0.1, 0.0, 1.0) * x[0] + np.round(0.1, 2) * x[0]
    out[4] = np.argmax(x) * x[1] + x.argmin() * x[1] + np.modf(2.3)[0] * x[0]
    out[5] = np.power(0.0, -1.0) + np.divide(1.0, 0.0)
    out[6] = math.sqrt(2.3) * x[0] / 3


@probe(INTS, printed="-ff|  -0xff|+00ff|+255|255\n")
def formats_of_negative_numbers(x):
    n = x[0] * 0 + 255
    print(f"{-n:x}|{-n:#7x}|{n:+05x}|{n:+d}|{n:-}")


@probe(INTS, printed="'a' a 2\n")
def converted_constants(x):
    print(f"{'a'!r} {'a'!s} {1 + 1!r}")
