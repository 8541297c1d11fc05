"""Test kernels for library functions."""

# mypy: ignore-errors

from __future__ import annotations

import cmath
import math

import numpy as np

from tests.dsl.kernel.probes.definition import INTS, IOUT, probe
from weft import cuda

X = np.array([0.1, 0.5, 0.9, -0.7, 0.25])
LARGE = np.array([1.0, 2.5, 10.0, 33.3, 170.0])
WIDE = np.zeros(40)
SINGLE = X.astype(np.float32)


@probe(X, np.zeros(45), ulps=2)
def math_trigonometry(x, out):
    for i in range(x.size):
        out[i] = math.sin(x[i])
        out[40 + i] = math.cos(x[i])
        out[5 + i] = math.tan(x[i])
        out[10 + i] = math.asin(x[i])
        out[15 + i] = math.acos(x[i])
        out[20 + i] = math.atan(x[i])
        out[25 + i] = math.atan2(x[i], -0.5)
        out[30 + i] = math.degrees(x[i])
        out[35 + i] = math.radians(x[i])


@probe(X, WIDE, ulps=3)
def math_hyperbolic(x, out):
    for i in range(x.size):
        out[i] = math.sinh(x[i])
        out[5 + i] = math.cosh(x[i])
        out[10 + i] = math.tanh(x[i])
        out[15 + i] = math.asinh(x[i])
        out[20 + i] = math.acosh(1 + abs(x[i]))
        out[25 + i] = math.atanh(x[i])
        out[30 + i] = math.hypot(x[i], 2.0)


@probe(LARGE, WIDE, ulps=2)
def math_exponentials(x, out):
    for i in range(x.size):
        out[i] = math.exp(x[i])
        out[5 + i] = math.log(x[i])
        out[10 + i] = math.log2(x[i])
        out[15 + i] = math.log10(x[i])
        out[20 + i] = math.log1p(x[i])
        out[25 + i] = math.expm1(x[i] / 8)
        out[30 + i] = math.pow(x[i], 1.5)
        out[35 + i] = math.sqrt(x[i])


@probe(LARGE, WIDE, ulps=2)
def math_newer_functions(x, out):
    for i in range(x.size):
        out[i] = math.exp2(x[i])
        out[5 + i] = math.cbrt(x[i])
        out[10 + i] = math.nextafter(x[i], 0.0)
        out[15 + i] = math.remainder(x[i], 0.7)
        out[20 + i] = math.log(x[i], 3.0)


@probe(LARGE, WIDE, ulps=4)
def math_special_functions(x, out):
    for i in range(x.size):
        out[i] = math.erf(x[i] / 3)
        out[5 + i] = math.erfc(x[i] / 8)
        out[10 + i] = math.gamma(x[i])
        out[15 + i] = math.lgamma(x[i] + 2)


@probe(np.array([2.5, -2.5, 3.0, -0.5]), np.zeros(24))
def math_rounding(x, out):
    for i in range(x.size):
        out[i] = math.floor(x[i])
        out[4 + i] = math.ceil(x[i])
        out[8 + i] = math.trunc(x[i])
        out[12 + i] = math.fabs(x[i])
        out[16 + i] = math.copysign(7.0, x[i])
        out[20 + i] = math.fmod(x[i], 0.75)


@probe(np.array([6.5, -0.3, 0.0, 1e300]), np.zeros(16))
def math_two_results(x, out):
    for i in range(x.size):
        mantissa, exponent = math.frexp(x[i])
        out[i] = mantissa + 100 * exponent
        part, whole = math.modf(x[i])
        out[4 + i] = part
        out[8 + i] = whole
        out[12 + i] = math.ldexp(mantissa, exponent - 2)


@probe(np.array([1.0, math.nan, math.inf, -math.inf]), np.zeros(16, np.int64))
def math_classification(x, out):
    for i in range(x.size):
        out[i] = math.isnan(x[i])
        out[4 + i] = math.isinf(x[i])
        out[8 + i] = math.isfinite(x[i])
        if x[i] != x[i] or x[i] == math.inf or x[i] > -math.inf:
            out[12 + i] = 1


@probe(INTS, IOUT)
def math_of_integers(x, out):
    for i in range(x.size):
        out[i] = math.gcd(x[i], 36) + math.floor(math.sqrt(abs(x[i]))) + math.isqrt(i)


@probe(np.zeros(4))
def math_constants(out):
    out[0] = math.pi
    out[1] = math.e
    out[2] = math.tau
    out[3] = -math.inf


@probe(np.array([1 + 2j, -0.5j, 2 - 1j]), np.zeros(24, complex), ulps=4)
def cmath_functions(z, out):
    for i in range(z.size):
        out[i] = cmath.exp(z[i])
        out[3 + i] = cmath.sqrt(z[i])
        out[6 + i] = cmath.log(z[i])
        out[9 + i] = cmath.sin(z[i])
        out[12 + i] = cmath.cosh(z[i])
        out[15 + i] = cmath.phase(z[i])
        r, phi = cmath.polar(z[i])
        out[18 + i] = cmath.rect(r, phi)
        out[21 + i] = cmath.isfinite(z[i])


@probe(LARGE, WIDE, ulps=2)
def numpy_elementary(x, out):
    for i in range(x.size):
        out[i] = np.sqrt(x[i])
        out[5 + i] = np.exp(-x[i])
        out[10 + i] = np.log(x[i])
        out[15 + i] = np.sin(x[i])
        out[20 + i] = np.tanh(x[i] / 16)
        out[25 + i] = np.power(x[i], 0.3)
        out[30 + i] = np.hypot(x[i], 1.0)
        out[35 + i] = np.arctan2(x[i], 2.0)


@probe(X, WIDE)
def numpy_simple(x, out):
    for i in range(x.size):
        out[i] = np.abs(x[i]) + np.fabs(x[i])
        out[5 + i] = np.floor(x[i]) + np.ceil(x[i]) + np.trunc(x[i]) + np.rint(x[i])
        out[10 + i] = np.minimum(x[i], 0.3)
        out[15 + i] = np.maximum(x[i], 0.3)
        out[20 + i] = np.sign(x[i])
        out[25 + i] = np.where(x[i] > 0.3, x[i], -1.0)
        out[30 + i] = np.clip(x[i], -0.2, 0.4)
        out[35 + i] = np.square(x[i]) + np.copysign(1.0, x[i])


@probe(SINGLE, np.zeros(5, np.float32), ulps=1)
def numpy_on_float32(x, out):
    for i in range(x.size):
        out[i] = np.sqrt(np.abs(x[i])) * 2.0 + np.where(x[i] > 0, x[i], 1)


@probe(INTS, IOUT)
def numpy_on_integers(x, out):
    for i in range(x.size):
        out[i] = np.maximum(x[i], 3) + np.left_shift(x[i], 1) + np.bitwise_xor(x[i], 5)
        out[i] += np.absolute(x[i]) + np.mod(x[i], 7) + np.floor_divide(x[i], 2)


@probe(np.array([math.nan, 1.0]), np.zeros(6))
def numpy_nan_rules(x, out):
    out[0] = np.minimum(x[0], x[1])
    out[1] = np.fmin(x[0], x[1])
    out[2] = np.isnan(x[0]) + 2 * np.isfinite(x[1]) + 4 * np.isinf(x[0])
    out[3] = np.inf
    out[4] = np.pi
    out[5] = np.logical_and(x[1] > 0, not np.isnan(x[0]))


# -- functions of the CUDA model ------------------------------------------------------------------

BITS = np.array([0, 1, 0x80000000, 0x00F0F000, 0xFFFFFFFF], np.uint32)


def _bits(x, out):
    for i, value in enumerate(int(v) for v in x):
        out[i] = bin(value).count("1")
        out[5 + i] = 32 - value.bit_length()
        out[10 + i] = (value & -value).bit_length()
        out[15 + i] = int(f"{value:032b}"[::-1], 2)


@probe(BITS, np.zeros(20, np.int64), want=_bits)
def bit_functions(x, out):
    for i in range(x.size):
        out[i] = cuda.popc(x[i])
        out[5 + i] = cuda.clz(x[i])
        out[10 + i] = cuda.ffs(x[i])
        out[15 + i] = cuda.brev(x[i])


@probe(
    np.array([0, 1, 3 << 40], np.uint64),
    np.zeros(9, np.int64),
    want=lambda x, out: out.__setitem__(slice(None), [0, 1, 2, 64, 63, 22, 0, 1, 41]),
)
def bit_functions_of_64_bits(x, out):
    for i in range(x.size):
        out[i] = cuda.popc(x[i])
        out[3 + i] = cuda.clz(x[i])
        out[6 + i] = cuda.ffs(x[i])


def _odds(x, out):
    for i, v in enumerate(x):
        out[i] = math.cbrt(v)
        out[5 + i] = 1 / math.sqrt(abs(v))
        out[10 + i] = v if v > 0.3 else 3.0
    # (1 + 2**-30)**2 - 1: only a fused operation keeps the last term
    out[15] = 2.0**-29 + 2.0**-60


@probe(X, np.zeros(16), want=_odds, ulps=2)
def fused_and_rooted(x, out):
    for i in range(x.size):
        out[i] = cuda.cbrt(x[i])
        out[5 + i] = cuda.rsqrt(abs(x[i]))
        out[10 + i] = cuda.selp(x[i] > 0.3, x[i], 3.0)
    near = 1.0 + x[1] * 2.0**-29
    out[15] = cuda.fma(near, near, -1.0)


HALF = np.array([0.5, -1.5, 3.0], np.float16)


def _half(x, out, flags):
    one = np.float16(1)
    for i, v in enumerate(x):
        out[i] = v + one
        out[3 + i] = v * v + one
        out[6 + i] = -abs(v)
        out[9 + i] = np.floor(v)
        out[12 + i] = max(v, one)
        flags[i] = v > one


@probe(HALF, np.zeros(15, np.float16), np.zeros(3, np.bool_), want=_half)
def half_functions(x, out, flags):
    one = np.float16(1)
    for i in range(x.size):
        out[i] = cuda.fp16.hadd(x[i], one)
        out[3 + i] = cuda.fp16.hfma(x[i], x[i], one)
        out[6 + i] = cuda.fp16.hneg(cuda.fp16.habs(x[i]))
        out[9 + i] = cuda.fp16.hfloor(x[i])
        out[12 + i] = cuda.fp16.hmax(x[i], one)
        flags[i] = cuda.fp16.hgt(x[i], one)


def _libdevice(x, out):
    for i, v in enumerate(x):
        out[i] = math.exp(v)
        out[5 + i] = math.sin(math.pi * v)
        out[10 + i] = math.copysign(math.floor(abs(v) + 0.5), v)
        out[15 + i] = math.sin(v)
        out[20 + i] = math.cos(v)


@probe(X, np.zeros(25), want=_libdevice, ulps=4)
def libdevice_functions(x, out):
    for i in range(x.size):
        out[i] = cuda.libdevice.exp(x[i])
        out[5 + i] = cuda.libdevice.sinpi(x[i])
        out[10 + i] = cuda.libdevice.round(x[i])
        sine, cosine = cuda.libdevice.sincos(x[i])
        out[15 + i] = sine
        out[20 + i] = cosine


def _clock(out):
    out[0] = 1


@probe(np.zeros(1, np.int64), want=_clock)
def clock_and_sleep(out):
    before = cuda.clock64()
    cuda.nanosleep(np.uint32(100))
    out[0] = cuda.clock64() >= before
