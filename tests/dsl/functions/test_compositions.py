"""Tests of functions that call other functions, on every device."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.functions import compositions
from weft.dsl.functions.calculus import interp
from weft.dsl.functions.own_names import OWN_IN
from weft.runtime import override

RNG = np.random.default_rng(5)
INPUTS = {
    "a": RNG.standard_normal((12, 15)),
    "b": RNG.standard_normal((12, 15)),
    "s": RNG.standard_normal((6, 6)),
    "v": RNG.standard_normal(60),
    "i": RNG.integers(-5, 5, (12, 15)),
    "z": RNG.standard_normal((4, 9)) + 1j * RNG.standard_normal((4, 9)),
    "n": np.where(RNG.random((12, 15)) < 0.1, np.nan, RNG.standard_normal((12, 15))),
    "f": RNG.standard_normal(60).astype("f4"),
    "e": np.zeros((0, 3)),
}

# These are recorded: on a GPU, NumPy computes no part of them.
PROGRAMS = """
xp.apply_over_axes(xp.sum, a, [0, 1]), xp.array_equiv(a, a[:1]), xp.array_equiv(a[:1] * 1, a[0])
xp.block([[a, b], [b, a]]), xp.diagflat(v[:5]), xp.diagflat(f[:4], 1), xp.dsplit(xp.reshape(a, (12, 5, 3)), 3)
xp.corrcoef(a), xp.cov(a), xp.cov(v, v[::-1], ddof=0), xp.cov(z), xp.cov(f), xp.cov(a, aweights=xp.abs(v[:15]))
xp.fill_diagonal(a, 3.0), a, xp.fill_diagonal(b, v[:3]), b, xp.fill_diagonal(s, 1, wrap=True), s
xp.fix(a * 3), xp.fix(f), xp.iscomplex(z), xp.iscomplex(a), xp.isreal(z), xp.isreal(i), xp.isposinf(a / 0), xp.isneginf(n)
xp.insert(v, 3, 7.0), xp.insert(a, [1, 5], 2.0, axis=1), xp.insert(v, slice(2, 6), 1.0), xp.insert(i, 0, i[0], axis=0)
xp.require(a, "f4", ["C"]), xp.asarray_chkfinite(a), xp.ix_(i[0] > 0, xp.arange(3)), xp.matrix_transpose(a), xp.unstack(a), xp.unstack(a, axis=1)
xp.nanargmax(n), xp.nanargmin(n, axis=1), xp.nanargmax(n, axis=0, keepdims=True), xp.nanargmax(i, axis=0)
xp.piecewise(v, [v < 0, v >= 1], [-1, lambda x: x * 2, 0.5]), xp.real_if_close(z), xp.real_if_close(a + 0j)
xp.polyadd(v[:3], v[:5]), xp.polysub(f[:3], v[:5]), xp.polymul(v[:3], v[:5]), xp.polyder(v[:5])
xp.put(v, [1, 3], [5.0]), v, xp.resize(a, (7, 11)), xp.resize(v, (3, 40)), xp.resize(e, (2, 2))
xp.sort_complex(v), xp.sort_complex(z[0]), xp.trim_zeros(xp.where(v > 1, v, 0)), xp.trim_zeros(v[:0]), xp.trim_zeros(v * 0)
xp.trim_zeros(xp.pad(a, 2)), xp.trim_zeros(xp.pad(a, 2), axis=1), xp.trim_zeros(xp.pad(a, 2), "f", axis=(0,))
xp.meshgrid(v, f, sparse=True, copy=False), xp.meshgrid(v, f, sparse=True, indexing="ij"), a.compress([True, False, True], 0), (i % 2).choose([a, b])
v.getfield("f4", 4), z.getfield("f8", 8), f[::3].getfield("u1", 3), a.T.getfield("i2", 6)
v.setfield(2.5, "f8"), v, i.setfield(a, "i2", 4), i, z.T.setfield(7, "f8", 8), z
v.byteswap().byteswap(), i.byteswap(), f[::-2].byteswap().byteswap(), z.byteswap().byteswap(), i.byteswap(True), i, z.T.byteswap().byteswap()
xp.unwrap(v * 3), xp.unwrap(a * 4, axis=0), xp.unwrap(i * 2, period=4), xp.unwrap(f * 3)
xp.vander(v[:20]), xp.vander(f[:9], 3, increasing=True), xp.vander(i[0]), xp.vander(v[:0], 2)
xp.cumulative_prod(v[:20]), xp.cumulative_prod(a, axis=1, include_initial=True), xp.histogram_bin_edges(v, bins=7)
xp.choose(i % 3, [a, b, a * 2]), xp.choose(i, [a, 2, i], mode="wrap"), xp.choose(i, [a, b, a * 2], mode="clip"), xp.choose(i % 2, [i, 1j])
xp.place(v, v > 1, [7.0, 8.0]), v, xp.place(i, i > 0, [9]), i, xp.putmask(a, a > 1, v[:7]), a, xp.putmask(b, b > 0, b * 2), b
xp.divmod(v, 0.3), xp.divmod(i, 3), xp.divmod(3, v), xp.divmod(f, f[::-1]), xp.modf(v * 9), xp.modf(f), xp.modf(i.astype('i2'))
xp.frexp(v * 1e300), xp.frexp(f), xp.frexp(f * 0), xp.frexp(xp.asarray([5e-324, -1e-310, np.inf, np.nan, 4.0, -0.0]))
xp.frexp(f.astype("e")), xp.frexp(xp.asarray(np.array([6e-8, -6e-5, np.inf, np.nan, -0.0], "e"))), xp.cumsum(i.astype("e"), axis=1)
xp.modf(v, where=v > 0, out=(xp.zeros(60), xp.zeros(60))), xp.divmod(v, 0.3, out=(v, None), where=v > 1)[0], v, xp.array_equal(a, np.ones((12, 15)))
xp.spacing(v), xp.spacing(f), xp.spacing(xp.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, 1.7976931348623157e308, -5e-324])), xp.spacing(i)
xp.poly(v[:6]), xp.poly(z[0, :3]), xp.polyint(v[:5]), xp.polyint(f[:5], 2, [1, 2]), xp.polyint(i[0], 0)
xp.histogramdd(a[:, :2], 3), xp.histogramdd(a[:, :3], (2, 3, 4), density=True, weights=v[:12])
xp.vecdot(a, b), xp.matvec(a, v[:15]), xp.vecmat(v[:12], a), xp.vecdot(z, z), xp.vecdot(i, i), xp.vecmat(z[:, 0], z)
xp.unravel_index(xp.abs(i), (3, 4)), xp.unravel_index(xp.abs(i), (3, 4), order="F"), xp.ravel_multi_index((i % 3, i % 4), (3, 4))
xp.ravel_multi_index((i, i), (3, 4), mode=("wrap", "clip"), order="F"), xp.ravel_multi_index((i % 3, i % 4), (3, 4), order="F")
[xp.convolve(x, y, m) for x, y in ((v, v[:7]), (f[:4], v), (i[0], i[1][:3]), (z[0], v[:3])) for m in ("full", "same", "valid")]
[xp.correlate(x, y, m) for x, y in ((v, v[:7]), (f[:4], v), (i[0], i[1][:3]), (z[0], z[1][:3])) for m in ("full", "same", "valid")]
xp.linalg.norm(a), xp.linalg.norm(a, axis=1), xp.linalg.norm(v, 1), xp.linalg.norm(v, np.inf), xp.linalg.norm(a, "fro"), xp.linalg.norm(z)
xp.linalg.norm(v, 3), xp.linalg.norm(a, 1), xp.linalg.norm(a, -np.inf), xp.linalg.norm(v, 0), xp.linalg.norm(a, axis=(0, 1), keepdims=True)
xp.linalg.vector_norm(a, axis=1), xp.linalg.vector_norm(a), xp.linalg.matrix_norm(a), xp.linalg.norm(i), xp.linalg.norm(f)
xp.linalg.matmul(a, b.T), xp.linalg.outer(v[:5], v[:6]), xp.linalg.trace(a), xp.linalg.diagonal(a), xp.linalg.tensordot(a, b, axes=2)
xp.linalg.vecdot(a, b), xp.linalg.vecdot(a, b, axis=0), xp.linalg.cross(a[:, :3], b[:, :3]), xp.linalg.matrix_transpose(a)
xp.linalg.multi_dot([a, b.T]), xp.linalg.multi_dot([a, b.T, a]), xp.linalg.multi_dot([v[:12], a, b.T, v[:12]])
xp.linalg.matrix_power(s, 5), xp.linalg.matrix_power(s, 0), xp.linalg.matrix_power(s, 1), xp.fft.fftshift(a), xp.fft.ifftshift(v, 0)
xp.max(z), xp.min(z, axis=0), xp.argmax(z, axis=1), xp.argmin(xp.real(z) + 0j), xp.max(xp.where(z.real > 1, np.nan, z), axis=1, keepdims=True)
xp.max(xp.round(z), axis=(0, 1)), xp.argmax(xp.round(z)), xp.argmin(xp.where(z.imag > 1, np.nan, z)), xp.ptp(xp.round(z), axis=0)
xp.add.reduceat(a, [0, 3, 7]), xp.add.reduceat(i, [2, 5], axis=1), xp.maximum.reduceat(f, [0, 1, 2, 40]), xp.add.reduceat(a * -0.0, [1, 4])
xp.r_[v, 1, 2:5], xp.r_[0:1:4j, 5.0], xp.c_[v, v], xp.c_[a, i], xp.mgrid[0:5, 0:3], xp.mgrid[0:5:2, 1:2:3j], xp.ogrid[0:5, 0:3]
xp.lib.stride_tricks.as_strided(v, (10, 3), (8, 16)), xp.lib.stride_tricks.as_strided(v, (4, 4), (8, 0))
""".strip().splitlines()


def run(program: str, xp: Any) -> Any:
    names: dict[str, Any] = {"xp": xp, "np": np}
    for name, values in INPUTS.items():
        names[name] = values.copy() if xp is np else xp.asarray(values) + 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return eval(program, names)


def compare(found: Any, wanted: Any) -> None:
    if isinstance(wanted, (tuple, list)):
        assert type(found) is type(wanted) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            compare(one, other)
    elif not isinstance(wanted, (np.ndarray, np.generic)):
        assert found is wanted or found == wanted
    else:
        assert isinstance(found, (wf.Array, np.generic)) and found.dtype == wanted.dtype and found.shape == wanted.shape
        if wanted.dtype.kind in "fc":
            limit = 1e-5 if wanted.dtype in (np.float32, np.complex64) else 1e-12
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=limit, atol=limit)
        else:
            np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_are_numpys(program: str) -> None:
    with warnings.catch_warnings():
        compare(run(program, wf), run(program, np))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_gpu_computes_them(program: str) -> None:
    wf.set_default_device("simt")
    try:
        with override(host_fallback="raise"):
            compare(run(program, wf), run(program, np))
    finally:
        wf.set_default_device(None)


def test_numpys_own_functions_lead_to_them() -> None:
    x = wf.asarray(INPUTS["a"])
    for function in (np.linalg.norm, np.unwrap, np.linalg.matrix_transpose, np.fft.fftshift, np.modf, np.isposinf):
        found = function(x)
        assert all(
            isinstance(each, (wf.Array, np.generic)) for each in (found if isinstance(found, tuple) else (found,))
        )


def test_composed_names_run_numpys_code() -> None:
    for own in OWN_IN.values():
        for name, (origin, old) in own._origin.items():
            if origin == "functions.compositions":
                made = own[name]
                assert callable(getattr(compositions, old.partition(":")[0]))
                assert getattr(made, "__name__", name) == name
                assert made is not getattr(np, name, None)


def test_cumulative_sums_of_half_precision_round_once_on_a_gpu() -> None:
    x = RNG.random(5000).astype("e")
    with wf.device("simt"), override(host_fallback="raise"):
        found = wf.cumsum(wf.asarray(x)), wf.cumprod(wf.asarray(x[:9] + 1))
    for ours, wanted in zip(found, (np.cumsum(x, dtype="d"), np.cumprod(x[:9] + 1, dtype="d")), strict=True):
        assert ours.dtype == np.float16
        np.testing.assert_allclose(np.asarray(ours, "d"), wanted, rtol=2**-10)


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
@pytest.mark.parametrize("name", ["nanmax", "nanmin"])
def test_extremes_of_nothing_but_nans_warn(name: str, dtype: str) -> None:
    x = np.array([[np.nan, np.nan], [1, np.nan]], dtype)
    with override(immediate=16384), pytest.warns(RuntimeWarning, match="All-NaN"):
        compare(getattr(wf, name)(wf.asarray(x), axis=1), np.array([np.nan, 1], dtype))
    compare(
        getattr(wf, name)(wf.asarray(x), axis=0, keepdims=True, initial=3, where=wf.asarray(x == 1)),
        np.array([[3 if name == "nanmax" else 1, 3]], dtype),
    )


def test_broadcast_arrays_give_no_warning_of_their_own() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in (
            *wf.broadcast_arrays(wf.zeros(2), wf.zeros((3, 1))),
            *wf.meshgrid(wf.zeros(2), wf.zeros(3), copy=False),
        ):
            assert each.shape == (3, 2) and not each.any()


def test_outputs_by_position_and_by_name() -> None:
    x, whole, rest = wf.asarray(INPUTS["v"]), wf.zeros(60), wf.zeros(60, np.float32)
    quotient, remainder = wf.divmod(x, 0.25, whole)
    assert quotient is whole
    np.testing.assert_array_equal(remainder, INPUTS["v"] % 0.25)
    assert np.divmod(x, 0.25, out=(None, rest))[1] is rest
    np.testing.assert_array_equal(rest, np.float32(INPUTS["v"] % 0.25))
    mask = np.arange(60) % 2 == 0
    found = wf.modf(x, where=mask, out=(wf.zeros(60), wf.zeros(60)))
    np.testing.assert_array_equal(found[1], np.where(mask, np.trunc(INPUTS["v"]), 0))
    assert wf.modf.nout == 2 and wf.divmod.nin == 2 and wf.divmod(7, 2) == (3, 1)
    assert [each.tolist() for each in divmod(wf.asarray([7, -7]), 2)] == [[3, -4], [1, 1]]


@pytest.mark.parametrize(
    "program",
    [
        "xp.vecdot(v, v[:3])", "xp.matvec(a, v)", "xp.vecmat(v, a)", "xp.choose(i, [a, b])", "xp.place(v, v[:3] > 0, [1])",
        "xp.place(i, i > 0, xp.asarray([1.5]))", "xp.place(v, v > 0, [])", "xp.putmask(i, i > 0, 2j)",
        "xp.unravel_index(i + 99, (3, 4))", "xp.ravel_multi_index((i, i), (3, 4))", "xp.convolve(a, v)",
        "xp.correlate(v, v[:0])", "xp.linalg.multi_dot([a])", "xp.linalg.matrix_power(a, 2)", "xp.nanargmax(n * np.nan)",
        "xp.linalg.norm(a, 'wrong')", "xp.matrix_transpose(v)", "xp.unwrap(v, axis=3)", "xp.insert(v, 99, 1.0)",
    ],
)  # fmt: skip
def test_errors_are_numpys(program: str) -> None:
    kinds = []
    for xp in (np, wf):
        with pytest.raises(Exception) as caught:
            run(program, xp)
        kinds.append(type(caught.value))
    assert kinds[0] is kinds[1]


def test_as_strided_stays_within_the_array() -> None:
    x = wf.arange(6.0)
    view = wf.lib.stride_tricks.as_strided(x, (2, 2), (16, 8))
    view[1, 1] = 9
    assert x[3] == 9
    for shape, strides in (((3, 4), (16, 8)), ((2,), (-8,)), ((2,), (4,))):
        with pytest.raises(ValueError, match="as_strided|strides"):
            wf.lib.stride_tricks.as_strided(x, shape, strides)


OTHER_DEVICE = {
    "pad": lambda xp, x: xp.pad(x, 3),
    "diag": lambda xp, x: xp.diag(x[:80]),
    "cumsum of float16": lambda xp, x: xp.cumsum((x > 1.2).astype(np.float16)),
    "cumprod of float16": lambda xp, x: xp.cumprod((1 - 2 * (x > 1.2)).astype(np.float16)),
    "max of complex": lambda xp, x: xp.max(x + 1j * x),
    "argmin of complex": lambda xp, x: xp.argmin(x + 1j * x),
}


@pytest.mark.parametrize("name", OTHER_DEVICE)
@pytest.mark.parametrize("pending", [False, True])
def test_functions_of_an_array_on_another_device_than_the_default(name: str, pending: bool) -> None:
    values = np.linspace(0.5, 1.5, 5000)
    array = wf.asarray(values, device="simt::backward")
    result = OTHER_DEVICE[name](wf, array + 0.0 if pending else array)
    np.testing.assert_array_equal(np.asarray(result), OTHER_DEVICE[name](np, values))


def test_interpolation_warns_of_nothing_if_its_operations_are_immediate() -> None:
    """Test that `interp` issues no warnings if all its operations are executed immediately.

    The limit of immediate execution is raised while programs are compiled, also during a call.
    """
    x, marks = np.linspace(0, 3.5, 100_000), np.arange(4.0)
    with override(immediate=1 << 17), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = interp(wf.asarray(x), marks, np.sin(marks))
    np.testing.assert_allclose(np.asarray(found), np.interp(x, marks, np.sin(marks)), rtol=1e-14)


def test_interpolation_between_complex_numbers_does_not_warn() -> None:
    x, heights = np.linspace(0, 3.5, 100_000), np.array([1, 2j, 3, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = wf.interp(wf.asarray(x), np.arange(4.0), heights)
    assert found.tolist() == np.interp(x, np.arange(4.0), heights).tolist()
