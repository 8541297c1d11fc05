"""PTX arithmetic on arrays, for operations that NumPy does not have.

In: arrays of one type. Out: arrays. Invariant: results are rounded once, unless the instruction is an approximation.
Approximations have small errors for some inputs, as on a GPU, and are deterministic.
"""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

_BITS = {np.dtype("f2"): np.uint16, np.dtype("f4"): np.uint32, np.dtype("f8"): np.uint64}


@cache
def _fused() -> dict[str, Any]:
    """Compile and return loops that use the processor's fused multiply-add."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = ""
    for kind, name in (("float", "f32"), ("double", "f64")):
        text += f"""
declare {kind} @llvm.fma.{name}({kind}, {kind}, {kind})
define void @fma_{name}(i64 %n, ptr %a, ptr %b, ptr %c, ptr %out) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %over
body:
  %pa = getelementptr {kind}, ptr %a, i64 %i
  %pb = getelementptr {kind}, ptr %b, i64 %i
  %pc = getelementptr {kind}, ptr %c, i64 %i
  %po = getelementptr {kind}, ptr %out, i64 %i
  %va = load {kind}, ptr %pa
  %vb = load {kind}, ptr %pb
  %vc = load {kind}, ptr %pc
  %r = call {kind} @llvm.fma.{name}({kind} %va, {kind} %vb, {kind} %vc)
  store {kind} %r, ptr %po
  %next = add i64 %i, 1
  br label %loop
over:
  ret void
}}"""
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(), opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    _fused_engines.append(engine)
    shape = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 4)
    return {name: shape(engine.get_function_address(f"fma_{name}")) for name in ("f32", "f64")}


_fused_engines: list[Any] = []


def fma(a: Any, b: Any, c: Any) -> np.ndarray:
    """Return ``a * b + c``, rounded once."""
    a, b, c = (np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b, c))
    if a.dtype == np.float16:
        return (a.astype(np.float64) * b + c).astype(np.float16)
    out = np.empty(a.shape, a.dtype)
    call = _fused()["f32" if a.dtype == np.float32 else "f64"]
    call(out.size, a.ctypes.data, b.ctypes.data, c.ctypes.data, out.ctypes.data)
    return out


def directed(op: str, rounding: str, a: Any, b: Any, c: Any = None) -> np.ndarray:
    """Return the result of an operation, rounded towards zero, down or up.

    The operation `op` is ``add``, ``sub``, ``mul`` or ``fma``.
    """
    a, b = (np.asarray(x) for x in (a, b))
    if a.dtype == np.float64:
        each = np.broadcast(a, b, np.float64(0) if c is None else c)
        return np.array([_directed(op, rounding, *map(float, v)) for v in each]).reshape(each.shape)
    if a.dtype != np.float32:
        raise ValueError(f"{op}.{rounding} of {a.dtype}")
    x, y = a.astype(np.float64), b.astype(np.float64)
    if op in ("add", "sub"):
        y = -y if op == "sub" else y
        high = x + y
        back = high - x
        low = (x - (high - back)) + (y - back)
    else:
        high, low = x * y, np.zeros(np.broadcast(x, y).shape)
        if op == "fma":
            z = np.asarray(c).astype(np.float64)
            product, high = high, high + z
            back = high - product
            low = (product - (high - back)) + (z - back)
    return towards(high, low, rounding)


def _directed(op: str, rounding: str, a: float, b: float, c: float) -> float:
    """Apply an operation to float64 numbers, and round the exact result up, down or towards zero."""
    plain = {"add": a + b, "sub": a - b, "mul": a * b, "fma": a * b + c}[op]
    if not all(map(math.isfinite, (a, b, c))):
        return plain
    p, q, r = map(Fraction, (a, b, c))
    exact = {"add": p + q, "sub": p - q, "mul": p * q, "fma": p * q + r}[op]
    if not exact:
        return plain
    near = exact.numerator / exact.denominator if abs(exact) < Fraction(2) ** 1024 else math.copysign(math.inf, exact)
    off = exact - Fraction(near) if math.isfinite(near) else -Fraction(int(math.copysign(1, near)))
    wanted = {"rp": 1, "rm": -1, "rz": -1 if exact > 0 else 1}[rounding]
    return math.nextafter(near, wanted * math.inf) if off * wanted > 0 else near


def towards(high: np.ndarray, low: np.ndarray, rounding: str) -> np.ndarray:
    """Return ``high + low`` rounded to float32 in the given direction."""
    near = high.astype(np.float32)
    off = (high - near.astype(np.float64)) + low  # the difference between the exact and the rounded value
    up = np.nextafter(near, np.float32(np.inf))
    down = np.nextafter(near, np.float32(-np.inf))
    match rounding:
        case "rp":
            return np.where(off > 0, up, near)
        case "rm":
            return np.where(off < 0, down, near)
        case _:
            return np.where((near > 0) & (off < 0), down, np.where((near < 0) & (off > 0), up, near))


def flush(x: Any) -> Any:
    """Return float32 numbers with zeros in place of subnormal numbers.

    The zeros keep the signs. Other types are unchanged.
    """
    if x.dtype != np.float32:
        return x
    small = np.abs(x) < np.float32(2.0**-126)
    return np.where(small, np.copysign(np.float32(0), x), x)


def approximate(exact: np.ndarray, dtype: Any, units: int = 1) -> np.ndarray:
    """Return approximations of `exact` with errors of less than `units` units in the last place.

    `exact` is in double precision.
    """
    near = np.asarray(exact.astype(dtype))
    bits = near.view(_BITS[near.dtype]).astype(np.uint64)
    choice = (bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(63)
    # the neighbour on the other side of the exact value is also within one unit
    above = near.astype(np.float64) < exact
    side = np.where(above, np.asarray(np.inf, dtype), np.asarray(-np.inf, dtype)).astype(dtype)
    other = np.nextafter(near, side)
    if units > 1:
        other = np.nextafter(other, side)
    off = np.isfinite(near) & (near.astype(np.float64) != exact) & (np.abs(near) > np.finfo(dtype).tiny * 4)
    # an inexact result must not be a power of two, or divisions that use the reciprocal would be wrong
    off &= np.abs(np.frexp(other)[0]) != 0.5
    return np.where(off & (choice == 1), other, near)


def smaller(a: Any, b: Any, sign: int) -> Any:
    """Return the smaller of two floats, or the larger one if `sign` is -1. NaNs are ignored, and -0 is less than +0."""
    a, b = np.broadcast_arrays(a, b)
    kind = _BITS[a.dtype]
    chosen = np.fmin(a, b) if sign > 0 else np.fmax(a, b)
    x, y = np.ascontiguousarray(a).view(kind), np.ascontiguousarray(b).view(kind)
    zeros = ((x | y) if sign > 0 else (x & y)).view(a.dtype)
    return np.where((a == 0) & (b == 0), zeros, chosen)


def to_integer(x: Any, dtype: np.dtype, rounding: str) -> Any:
    """Return numbers rounded to integers and saturated to the type's range. NaN becomes 0."""
    how = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[rounding]
    whole = how(x.astype(np.float64))
    info = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        inside = np.where((whole > info.min) & (whole < info.max), whole, 0.0)
        # the largest 64-bit integers are not representable as doubles, so the limits are assigned separately
        made = inside.astype(dtype)
    return np.where(whole >= float(info.max), info.max, np.where(whole <= float(info.min), info.min, made)).astype(
        dtype
    )


def high_product(a: Any, b: Any) -> Any:
    """Return the upper half of a product of integers."""
    bits = a.dtype.itemsize * 8
    if bits <= 32:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    a, b = np.broadcast_arrays(a, b)
    return np.array([(int(p) * int(q)) >> 64 for p, q in zip(a.ravel(), b.ravel(), strict=True)], a.dtype)


def divide(a: Any, b: Any, remainder: bool) -> Any:
    """Return the quotients of integers, rounded towards zero, or the remainders.

    If the divisor is zero, all bits of the result are set, as on a GPU.
    """
    a, b = np.broadcast_arrays(a, b)
    zero = b == 0
    safe = np.where(zero, 1, b).astype(a.dtype)
    with np.errstate(all="ignore"):
        if a.dtype.kind == "u":
            quotient = a // safe
        else:
            quotient = np.floor_divide(a, safe)
            exact = quotient * safe == a
            quotient = quotient + ((~exact) & ((a < 0) != (safe < 0))).astype(a.dtype)
        found = a - quotient * safe if remainder else quotient
    return np.where(zero, np.asarray(-1).astype(a.dtype), found).astype(a.dtype)
