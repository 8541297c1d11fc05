"""Tests of functions of complex numbers.

Most results are compared with NumPy's. The arguments include infinities, NaNs, signed zeros, extreme values and
ordinary values.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft as wf
from tests.dsl.special_values import same
from weft.runtime import override

FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sign", "reciprocal", "absolute", "conjugate"),
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
)
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.5, -3.25, -0.9999, 1e-9, 1e8]
ENDS = {"complex128": [1e-320, 1e-300, 1e300, -1e300, 710.0], "complex64": [1e-44, 1e-37, 1e38, -1e38, 89.0]}


def grid(dtype: str) -> np.ndarray:
    return np.array([complex(a, b) for a, b in itertools.product(EDGES + ENDS[dtype], repeat=2)], dtype)


def parts_agree(ours: np.ndarray, theirs: np.ndarray, other: np.ndarray, rtol: float) -> np.ndarray:
    """Return a mask of where real parts agree with NumPy's.

    `other` contains NumPy's imaginary parts. Where it is NaN, signs are not compared. The imaginary parts can be
    compared in the same way, with the real parts as `other`.
    """
    near = np.abs(ours - theirs) <= rtol * np.maximum(np.abs(ours), np.abs(theirs)) + np.finfo(ours.dtype).tiny * 1e-3
    same = np.where(np.isinf(theirs) | (theirs == 0), (ours == theirs) & (np.signbit(ours) == np.signbit(theirs)), near)
    unsigned = np.isnan(other) & (np.abs(ours) == np.abs(theirs))
    return same | unsigned | (np.isnan(ours) & np.isnan(theirs))


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_edges(name: str, dtype: str) -> None:
    z = grid(dtype)
    rtol = 5e-14 if dtype == "complex128" else 3e-5
    with np.errstate(all="ignore"):
        theirs = getattr(np, name)(z)
        ours = np.asarray(getattr(wf, name)(wf.asarray(z)))
        assert ours.dtype == theirs.dtype
        agree = parts_agree(ours.real, theirs.real, theirs.imag, rtol) & parts_agree(
            ours.imag, theirs.imag, theirs.real, rtol
        )
    # exp(-inf + inf j) is a zero of either sign
    agree |= (ours == 0) & (theirs == 0) & np.isinf(z.real) & np.isinf(z.imag)
    if name == "expm1":  # (NumPy gives NaNs where the array API standard has numbers)
        agree |= np.isnan(theirs) & ((z.imag == 0) | (np.isinf(z.real) & ~np.isfinite(z.imag)))
    wrong = [f"{z[k]}: {ours[k]}, not {theirs[k]}" for k in np.flatnonzero(~agree)]
    assert not wrong, wrong[:8]


@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_special_values_of_expm1_are_those_of_the_array_api_standard(dtype: str, immediate: int) -> None:
    inf, nan = np.inf, np.nan
    cases = {
        (-0.0, 0): (-0.0, 0), (1, inf): (nan, nan), (1, nan): (nan, nan), (inf, 0): (inf, 0), (-inf, 1): (-1, 0),
        (-inf, 2): (-1, 0), (-inf, 4): (-1, -0.0), (inf, 1): (inf, inf), (inf, 2): (-inf, inf), (-inf, inf): (-1, 0), (inf, inf): (inf, nan),
        (-inf, nan): (-1, 0), (inf, nan): (inf, nan), (nan, 0): (nan, 0), (nan, 1): (nan, nan), (nan, nan): (nan, nan),
    }  # fmt: skip
    x = np.empty((2, len(cases)), dtype)
    for row, pairs in zip(x, (cases, cases.values()), strict=True):
        row.real, row.imag = np.array(list(pairs), row.real.dtype).T
    with override(immediate=immediate):
        found = np.asarray(wf.expm1(wf.asarray(x[0]))), np.asarray(wf.expm1(wf.asarray(x[0].conj())))
    unspecified = np.isinf(x[0].real) & ~np.isfinite(x[0].imag)  # (the sign of the imaginary part)
    assert same(found[0], x[1]) and same(
        np.where(unspecified, found[0], found[1]), np.where(unspecified, x[1], x[1].conj())
    )
    assert (found[1] == x[1])[x[0].real == -np.inf].all()


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("sign", "conjugate")])
def test_away_from_edges(name: str) -> None:
    source = np.random.default_rng(0)
    z = source.normal(0, 1.5, 500) + 1j * source.normal(0, 1.5, 500)
    z[::5] *= 10.0 ** source.uniform(-8, 1, 100)
    np.testing.assert_allclose(getattr(wf, name)(wf.asarray(z)), getattr(np, name)(z), rtol=2e-14, atol=1e-15)


@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_logarithms_of_magnitudes_of_every_exponent(name: str) -> None:
    z = (2.0 ** np.arange(-140, 128) * (0.75 - 0.5j)).astype("complex64")
    np.testing.assert_allclose(getattr(wf, name)(wf.asarray(z)), getattr(np, name)(z), rtol=2e-6)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_logarithms_of_magnitudes_near_1(dtype: str) -> None:
    """Compare the small real parts of logarithms near the unit circle with NumPy's."""
    z = np.exp(1j * np.linspace(0, 6, 1000)).astype(dtype)
    with override(immediate=0, interpret="never"):
        found = np.asarray(wf.log(wf.asarray(z)))
    np.testing.assert_allclose(found.real, np.log(z).real, rtol=1e4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
@pytest.mark.parametrize(
    "name", ["less", "less_equal", "greater", "greater_equal", "equal", "maximum", "minimum", "fmax", "fmin"]
)
def test_order_of_what_has_a_part_that_is_no_number(name: str, dtype: str) -> None:
    parts = [0.0, 1.0, -np.inf, np.inf, np.nan]
    z = np.array([complex(a, b) for a, b in itertools.product(parts, repeat=2)], dtype)
    with np.errstate(all="ignore"):
        theirs = getattr(np, name).outer(z, z)
    np.testing.assert_array_equal(getattr(wf, name).outer(wf.asarray(z), wf.asarray(z)), theirs)


def test_powers() -> None:
    z = grid("complex128")
    z = z[np.isfinite(z) & (np.abs(z) < 100) & ((np.abs(z) > 1e-3) | (z == 0))]
    for exponent in (0, 1, 2, 3, 5, -1, -2, 17, 99, 100, -100, 0.5, 2 + 1j, -0.25j):
        with np.errstate(all="ignore"):
            theirs, ours = np.power(z, exponent), np.asarray(wf.asarray(z) ** exponent)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-300, err_msg=f"to the {exponent}")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_whole_powers_are_exact_at_infinities_too(dtype: str) -> None:
    z = grid(dtype)
    for exponent in (1, 2, 3, 4, 7, -1, -2, -3, 99):
        exponents = np.full(z.shape, exponent, dtype)
        with np.errstate(all="ignore"):
            theirs, ours = z**exponents, np.asarray(wf.asarray(z) ** exponents)
        np.testing.assert_array_equal(ours.view(z.real.dtype), theirs.view(z.real.dtype), f"to the {exponent}")
