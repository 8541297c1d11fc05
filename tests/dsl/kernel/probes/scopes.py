"""Test kernels for scopes, assignments, identity, recursion and unusual classes."""

# mypy: ignore-errors
# ruff: noqa: F841

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tests.dsl.kernel.probes.definition import INTS, OUT, probe


@probe(3, 0, OUT)
def assignments_in_expressions(n, zero, out):
    c = 1
    beyond = 5 < n < (c := 4)
    out[0] = c
    t, u = 10, 0
    nothing = sum((t := k) for k in range(zero))
    out[1] = t
    out[2] = sum((u := u + k) for k in range(n))
    out[3] = u
    i = 4
    out[(i := 5)] += i
    out[4] = i
    n += (n := 7)
    out[6] = n


@probe(4, OUT)
def targets_of_comprehensions(n, out):
    i, j = 5.5, 6
    out[0] = sum(i for i in range(n))
    out[1] = i
    values = [j * 0.5 for j in range(3)]
    out[2] = values[2]
    out[3] = j


@probe(3, OUT)
def names_of_patterns_with_guards(x, out):
    n = 0
    match x:
        case n if n > 5:
            out[0] = 1
        case _:
            out[0] = n
    match x:
        case y if 1 < 2:
            out[1] = y
        case _:
            out[1] = -1
    match (x, 2):
        case (3, z) | (z, 2):
            out[2] = z


@probe(OUT)
def assigned_by_an_inner_function(out):
    a = 1

    def change():
        nonlocal a
        return (a := 5)

    out[0] = change()
    out[1] = a


@probe(2, OUT)
def loops_over_items_of_several_types(c, out):
    for items in ((1.0, 2.0, 3.0), (4, 5)):
        for item in items:
            out[0] += item
        out[1] += len(items)
    for v in (1, 2):
        if c > 1:
            v = v + 0.5
        out[2] += v
    last = 0
    for k in range(c):
        out[3] += last
        for last in (1, 2.5):
            out[4] += last


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@probe(1, INTS, OUT)
def identity(one, n, out):
    flag, color = n[0] > 0, Color.RED
    if one > 0:
        color = Color.BLUE
    out[0] = True is bool(flag)
    out[1] = bool(flag) is True
    out[2] = one is True
    out[3] = color is Color.BLUE
    out[4] = color is not Color.BLUE


def halved(n):
    if n == 0:
        return None
    if n % 2:
        return n
    return halved(n // 2)


factorial = lambda n: 1 if n < 2 else n * factorial(n - 1)  # noqa: E731


@probe(12, 0, OUT)
def recursive_results(n, zero, out):
    found, missing = halved(n), halved(zero)
    out[0] = -1 if found is None else found
    out[1] = -1 if missing is None else 0
    out[2] = factorial(n - 7)


@dataclass
class Lanes:
    lanes: int = 4
    width: float = 2.0


@dataclass
class Mixed:
    a: float
    b: float = field(default=1.0, kw_only=True)
    c: float = 2.0
    d: float = field(default=7.0, init=False)
    SCALE: ClassVar[float] = 3.0


@dataclass(frozen=True)
class Tables:
    @property
    def ones(self):
        return np.full(4, 1.0)

    @property
    def twos(self):
        return np.full(4, 2.0)


TABLES = Tables()


@probe(Lanes(3, 5.0), OUT)
def classes_with_unusual_fields(given, out):
    made, mixed = Lanes(1, 8.0), Mixed(3.0, 4.0)
    out[0] = given.lanes + given.width
    out[1] = made.lanes + made.width
    out[2] = mixed.a * mixed.SCALE
    out[3] = mixed.b + mixed.c + mixed.d
    out[4] = TABLES.ones[0] + 10 * TABLES.twos[0]


@probe(np.array([np.inf, 2.0, 2.5, np.nan]), np.array([b"abc"]), OUT)
def numbers_and_text(x, t, out):
    for k in range(4):
        out[k] = float(x[k]).is_integer()
    out[4] = t[0] == b"axbxcx"[::2]


@probe(np.array([1 + 2j, 3 - 1j]))
def views_as_targets(z):
    z.real += 1
    z.imag *= 2
