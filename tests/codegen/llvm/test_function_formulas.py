"""Tests of elementary functions. They check error bounds, special values, and that results do not depend on an element's position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.codegen import resolve_target
from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.llvm.emit import Emitter
from weft.codegen.llvm.function_formulas import FORMULAS, has_fma
from weft.codegen.llvm.host_dialect import HostDialect
from weft.codegen.target import Target

STRIDE = 4099  # step through all float32 bit patterns, which tests about a million values
MOST = 3.0  # units in the last place, as the tested module states

pytestmark = pytest.mark.skipif(not has_fma(resolve_target("host")), reason="this machine calls the C library")


def computed(name: str, values: np.ndarray, device: str = "cpu") -> np.ndarray:
    with wf.device(device):
        return np.array(getattr(wf, name)(wf.asarray(values)))


def units_off(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the errors of `found` in units in the last place. `exact` contains the exact results in a wider type."""
    kind = found.dtype
    with np.errstate(all="ignore"):
        rounded = exact.astype(kind)
        unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(kind).tiny)).astype(exact.dtype)
        off = np.abs(found.astype(exact.dtype) - exact) / unit
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(same & ~np.isfinite(rounded), 0, np.where(np.isnan(off), np.inf, off))


@pytest.mark.parametrize("name", FORMULAS)
def test_error_of_float32(name: str) -> None:
    values = np.arange(0, 1 << 32, STRIDE, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(values.astype(np.float64))
    off = units_off(computed(name, values), exact)
    assert off.max() < MOST, (values[off.argmax()], off.max())


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="nothing is wider than float64 here")
@pytest.mark.parametrize("name", FORMULAS)
def test_error_of_float64(name: str) -> None:
    source = np.random.default_rng(0)
    values = np.concatenate(
        [
            source.integers(0, 1 << 64, 100_000, dtype=np.uint64).view(np.float64),
            source.uniform(-750, 750, 100_000),
            source.standard_normal(100_000),
            np.exp(source.uniform(-745, 709, 100_000)),
            1 + 1e-3 * source.standard_normal(100_000),
        ]
    )
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(values.astype(np.longdouble))
    off = units_off(computed(name, values), exact)
    assert off.max() < MOST, (values[off.argmax()], off.max())


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMULAS)
def test_special_values(name: str, kind: type) -> None:
    """Test special values, and arguments near overflow or underflow."""
    tiny, least = np.finfo(kind).tiny, np.finfo(kind).smallest_subnormal
    ends = [88.72283, 88.72284, 103.97, 103.98, 709.782712893384, 709.7827128933841, 744.44, 745.13, 745.14]
    whole = [1, 2, 8, 126, 127, 128, 129, 149, 150, 1022, 1023, 1024, 1025, 1074, 1075, 0.5]
    values = np.array([0, np.inf, tiny, least, 3 * least, np.finfo(kind).max, *ends, *whole], kind)
    values = np.concatenate([values, -values, np.array([np.nan], kind)])
    wider = np.float64 if kind is np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(values.astype(wider)).astype(kind)
    found = computed(name, values)
    odd = ~np.isfinite(exact) | (exact == 0)
    np.testing.assert_array_equal(found[odd], exact[odd])
    zero = exact == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(exact[zero]))
    assert (np.abs(found[~odd] - exact[~odd]) <= MOST * np.spacing(np.abs(exact[~odd]))).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_value_does_not_depend_on_its_position(name: str, kind: type) -> None:
    """Test that a function has the same results for a slice as for the whole array, and that an emulated GPU (`simt`) returns the same results."""
    values = np.random.default_rng(1).uniform(0.01, 9, 203).astype(kind)
    right = computed(name, values)
    for part in (slice(0, 1), slice(3, 8), slice(100, 203)):
        assert (computed(name, values[part]) == right[part]).all()
    assert (computed(name, values, "simt") == right).all()


def test_whole_powers_of_two_are_exact() -> None:
    for kind, least, most in ((np.float32, -149, 128), (np.float64, -1074, 1024)):
        n = np.arange(least, most)
        powers = np.ldexp(kind(1), n).astype(kind)
        assert (computed("exp2", n.astype(kind)) == powers).all()
        assert (computed("log2", powers) == n).all()


def test_a_machine_without_fused_multiply_add_calls_the_library() -> None:
    """Test that a target without fused multiply-add calls the C library.

    Each fused multiply-add of a formula would otherwise be a call.
    """
    b = KernelBuilder("plain", np.int64)
    x, out = b.pointer("x", np.float32), b.pointer("out", np.float32, writable=True)
    zero = b.constant(0, np.int64)
    b.store(out, zero, b.op("exp", b.load(x, zero)))
    symbols = {}
    for features in ("+avx2,+fma", "+avx2"):
        dialect = HostDialect(Target("host", "cpu", "x86_64-linux-gnu", "haswell", features, 32, 1))
        Emitter(b.finish(), dialect).emit()
        symbols[features] = sorted(dialect.symbols)
    assert symbols["+avx2,+fma"] == []
    assert len(symbols["+avx2"]) == 1
    assert "exp" in symbols["+avx2"][0]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_remainders_are_exact(name: str, kind: type) -> None:
    """Compare remainders and floored quotients with NumPy's."""
    source, count = np.random.default_rng(2), 20_001
    integer = np.dtype(f"u{np.dtype(kind).itemsize}")
    x, y = (source.integers(0, 1 << 8 * integer.itemsize, count, integer).view(kind) for _ in range(2))
    least = source.integers(0, 1 << 9, count).astype(integer).view(kind)
    divisors = source.standard_normal(count).astype(kind)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -3, np.finfo(kind).max, np.finfo(kind).tiny], kind)
    with np.errstate(all="ignore"):
        products = (divisors * source.integers(0, 1 << 20, count).astype(kind)).astype(kind)
        far = (divisors * np.exp2(source.integers(0, 60, count))).astype(kind)
        close = [np.nextafter(each, kind(end)) for each in (x, products) for end in (-np.inf, np.inf)]
    pairs = [(x, y), (least, least[::-1]), (divisors, least), (far, divisors), (products, divisors)]
    pairs += zip((x, x, *close[2:]), (*close[:2], divisors, divisors), strict=True)
    pairs += [tuple(np.resize(each, count) for each in np.meshgrid(special, special))]
    for one, other in pairs:
        with np.errstate(all="ignore"):
            exact = getattr(np, name)(one, other)
        found = np.array(getattr(wf, name)(wf.asarray(one), wf.asarray(other)))
        np.testing.assert_array_equal(found, exact)
        np.testing.assert_array_equal(np.signbit(found[exact == 0]), np.signbit(exact[exact == 0]))


def test_remainders_in_kernels_of_users_are_exact() -> None:
    @wf.kernel
    def remainders(x: Any, y: Any, out: Any) -> None:
        k = cuda.grid(1)
        if k < out.size:
            out[k] = np.fmod(x[k], y[k])

    source = np.random.default_rng(3)
    x, y = source.standard_normal((2, 1000)) * np.exp2(source.integers(0, 90, (2, 1000)))
    out = wf.zeros(1000)
    remainders[4, 256](wf.asarray(x), wf.asarray(y), out)
    np.testing.assert_array_equal(np.array(out), np.fmod(x, y))
