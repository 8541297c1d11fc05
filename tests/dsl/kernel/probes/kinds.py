"""Test kernels that use less common features of Python and NumPy, such as narrow integers, enum flags and ``math.isqrt``."""

# mypy: ignore-errors

from __future__ import annotations

import enum
import math

import numpy as np

from tests.dsl.kernel.probes.definition import FLOATS, INTS, IOUT, OUT, probe

MATRIX = np.arange(9.0).reshape(3, 3)
COMPLEX = (np.arange(4.0) + 10j * np.arange(4.0)).reshape(2, 2)
BYTES = np.array([3, 255, 94, 0, 100, 7], np.uint8)
SMALL = np.array([-100, 120, 100, 96, -93, 117], np.int8)
DURATIONS = np.array([-7, 7, np.timedelta64("NaT", "D"), 0], "m8[D]")
RECORDS = np.array([(1.5, 1), (2, 2), (3, 3)], [("a", "f4"), ("b", "i4")])
OTHERS = np.array([(7, 1.5), (2, 2.5), (3, 3.5)], [("a", "i4"), ("b", "f4")])
WIDE = np.array([2**60 + 7, 1, 2**62 - 1])


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


# -- narrow integers -------------------------------------------------------------------------------


@probe(BYTES, SMALL, IOUT)
def ranges_of_narrow_integers(u, s, out):
    for k, _ in zip(range(5, u[0]), range(100), strict=False):
        out[0] = k
    out[1] = len(range(5, u[0]))
    out[2] = len(range(0, u[1], 3)) + len(range(u[1], 0, -1))
    out[3] = len(range(s[0], s[1]))
    for k, _ in enumerate(range(s[0], s[1])):
        out[4] = k
    out[5] = range(3, 20)[-int(u[0])]


@probe(BYTES, SMALL, np.zeros((4, 6), np.int64))
def narrow_integers_in_ranges(u, s, out):
    for k in range(6):
        out[0, k] = s[k] in range(-100, 120, 7)
        out[1, k] = u[k] in range(-5, 300)
        out[2, k] = u[k] in range(100, 5, -3)
        out[3, k] = (u[k] < 300) + 2 * (u[k] == 300) + 4 * (u[k] > -1) + 8 * (-1 != u[k])


@probe(np.array([2**32 - 1], np.uint32), np.arange(160.0), OUT)
def indices_that_wrap(u, x, out):
    out[0] = x[np.int32(u[0])]
    for k in range(40, 43):
        out[k - 39] = x[np.int8(100) + k]


@probe(WIDE, FLOATS, OUT)
def expressions_in_unrolled_loops(n, x, out):
    k = 0
    for items in (n, x):
        out[k] = (items[0] if items[1] else items[2]) % 1000
        out[k + 1] = (items[0] or items[1]) % 1000
        out[k + 2] = (items[0], items[1])[int(n[1]) - 1] % 1000
        k += 3


def power_by(base, n):
    def power(k):
        return 1 if k == 0 else base * power(k - 1)

    return power(n)


def last_field(records, k):
    return records[0]["a"] * 1.0 if k == 0 else last_field(records, k - 1) + records[k]["b"]


@probe(np.array([4]), RECORDS, OTHERS, OUT)
def recursive_functions_of_one_shape(n, r, s, out):
    out[0] = power_by(2, n[0]) + power_by(3, n[0])
    out[1] = last_field(r, 2)
    out[2] = last_field(s, 2)


@probe(
    DURATIONS, np.array([2, 0]), np.array([np.nan, 2.0, 0.0]), np.zeros((10, 4), "m8[D]"), np.zeros((3, 4), np.int64)
)
def durations_without_a_value(t, n, x, out, whole):
    for k in range(4):
        for j in range(3):
            out[j, k] = t[k] * x[j]
            out[3 + j, k] = t[k] // x[j]
        out[6, k] = t[k] // n[1]
        out[7, k] = t[k] / n[0]
        out[8, k] = t[k] % t[3]
        out[9, k] = t[0] % t[k]
        whole[0, k] = t[k] // t[0]
        whole[1, k] = t[0] // t[k]
        whole[2, k] = t[k] // t[3]


# -- flags, classes, patterns ------------------------------------------------------------------------


@probe(INTS, IOUT)
def operators_of_flags(n, out):
    out[0] = int(Access.READ ^ Access.WRITE)
    out[1] = Access.READ + 1
    out[2] = Access.WRITE << 2
    out[3] = n[6] & ~Access.READ
    out[4] = n[0] | Access.WRITE


@probe(INTS, IOUT)
def classes_of_values(n, out):
    k = int(n[0])
    out[0] = isinstance(k, int | float)
    out[1] = isinstance(k, (str, (int, float)))
    out[2] = isinstance(k, object) + isinstance(k > 3, int)
    out[3] = getattr((1, 2), "absent", 7) + getattr(n, "absent", 3)
    out[4] = isinstance((1, 2), tuple) + isinstance(n, np.ndarray)


@probe(INTS, OUT)
def patterns_with_names(n, out):
    a, b = int(n[0]), int(n[4])
    match (a, b):
        case (1, v) | (v, 7):
            out[0] = v
    match (a, (b, 2)):
        case (_, ((v, 1) | (v, 2))):
            out[1] = v
    match a > 3:
        case _ if a > 6:
            out[2] = 1
        case True:
            out[2] = 2


@probe(np.array([5, 2]), OUT)
def none_in_a_pattern(n, out):
    for k in range(2):
        y = None
        if n[k] > 3:
            y = 2.0
        match y:
            case None:
                out[k] = 1
            case _:
                out[k] = 2


# -- views -----------------------------------------------------------------------------------------


@probe(MATRIX, COMPLEX, OUT, OUT)
def variables_of_views(a, z, out, parts):
    b, c = a, a.T
    d = z.real
    for k in range(3):
        b, c = c, b
        if k:
            d = z.imag
    for k in range(8):
        out[k] = b[k // 3, k % 3]
    for k in range(4):
        parts[k] = d[k // 2, k % 2]


@probe(np.asfortranarray(MATRIX), MATRIX, MATRIX)
def overlapping_parts_in_any_order(a, b, m):
    a[:-1, 1:] = a[1:, :-1]
    t = b.T
    t[1:, :-1] += t[:-1, 1:]
    r = m[::-1]
    r[:, 1:] = r[:, :-1]


@probe(OUT)
def one_value_for_a_view(out):
    out[2:5] = (5,)
    y = None
    if out[0] == 0:
        y = out
    if y is not None:
        y[0] = 3


@probe(np.array([b"abc", b"de"]), IOUT)
def strides_of_text(x, out):
    out[0] = x.strides[0]


# -- functions of numbers ------------------------------------------------------------------------------


@probe(np.array([1e300, 2.5, np.nan, -0.4]), INTS, OUT, OUT)
def rounding_to_floats_and_integers(x, n, out, whole):
    for k in range(4):
        out[k] = np.round(x[k])
        out[4 + k] = np.copysign(1.0, np.around(x[k]))
        whole[k] = round(int(n[k]), 2) + round(1000 * int(n[k]) + 50, -2) + round(int(n[6]) * 3 - 150, -2)


@probe(np.array([2**53 + 1]), np.array([1250, 1350, -150], np.int32), IOUT)
def rounding_of_integers(n, m, out):
    out[0] = round(int(n[0]), 2)
    out[1] = np.round(m[0], -2) + np.round(m[1], -2)
    out[2] = round(m[2], -2)


@probe(np.array([100000, 2], np.int32), OUT)
def powers_of_integers(n, out):
    out[0] = math.pow(n[0], 2)
    out[1] = math.pow(n[1], -1)
    out[2] = math.pow(n[1], 3) / 7


@probe(np.array([2**62 - 1, 67108865**2 - 1, 3037000499**2 - 1, 3037000499**2, 2**63 - 1, 0]), IOUT)
def integer_roots(n, out):
    for k in range(6):
        out[k] = math.isqrt(n[k])


@probe(np.array([2**64 - 1, 2**63, 4294967295**2 - 1, 4294967295**2, 10], np.uint64), IOUT)
def integer_roots_of_unsigned_numbers(n, out):
    for k in range(5):
        out[k] = math.isqrt(n[k])


@probe(np.array([3e200, 4e200]), OUT)
def distance_whose_square_is_too_large(x, out):
    out[0] = math.dist((x[0], x[1]), (0.0, 0.0))


@probe(np.array([12345.0, -1e307, 2500.0, 123.0]), np.zeros(8))
def rounding_before_the_point(x, out):
    for k in range(4):
        out[k] = round(x[k], -2)
        out[4 + k] = np.round(x[k], -2)


@probe(np.array([1 + 2j, 3 + 4j]), np.zeros(2, complex))
def complex_of_complex_numbers(z, out):
    out[0] = complex(z[0], z[1])
    out[1] = complex(1.0, z[1])


@probe(WIDE, np.zeros(8))
def medians(n, out):
    a = np.zeros(2, np.uint8)
    a[0] = 200 + int(n[1]) - 1
    a[1] = 210
    out[0] = np.median(a)
    b = np.zeros(3, np.int64)
    b[:] = n[2]
    out[1] = np.median(b)
    c = np.zeros(4)
    c[:] = np.nan
    c[0] = 1.7e308
    out[2] = np.nanmedian(c)
    out[3] = np.nanmedian(a)


@probe(INTS, np.zeros(8))
def statistics_of_narrow_integers(n, out):
    a = np.zeros(3, np.int8)
    a[0] = n[6]
    a[1] = n[6]
    a[2] = n[7]
    out[0] = np.nansum(a)
    out[1] = np.nanprod(a)
    out[2] = np.nanmean(a)
    b = np.zeros(3, np.uint8)
    b[:] = 200
    out[4] = np.nansum(b)


@probe(np.array([200, 10], np.uint8), np.zeros(10), np.zeros(10), np.zeros(10))
def steps_between_numbers(u, out, floats, wholes):
    out[:5] = np.linspace(u[0], u[1], 5)
    out[5:] = np.linspace(np.float32(u[0]), 0.3, 5)
    floats[:9] = np.arange(1.1, 2, 0.1)
    wholes[:] = np.arange(0, 5, 0.5, dtype=np.int64)


@probe(np.array([1 + 1j]), np.zeros(5, complex), np.zeros(10, np.float32))
def steps_between_complex_numbers(z, out, small):
    out[:] = np.linspace(z[0], 2, 5)
    small[:] = np.arange(0, 1, 0.1, dtype=np.float32)
