"""Tests of the dtypes, axes and masks of reductions and scans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

IMMEDIATE = 0


@pytest.mark.parametrize("dtype", ["i1", "u1", "f2", "i8", "f4"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["mean", "var"])
def test_a_dtype_need_not_hold_the_number_of_elements(name: str, masked: bool, dtype: str) -> None:
    x = np.zeros((2, 70_000), "i1")
    x[:, :250] = [[1], [3]]
    options: dict[str, Any] = {"where": x >= 0} if masked else {}
    expected = getattr(np, name)(x, axis=1, dtype=dtype, **options)
    found = getattr(wf, name)(wf.asarray(x), axis=1, dtype=dtype, **options)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-3)


@pytest.mark.parametrize("dtype", ["i4", "u1", "i8"])
def test_the_mean_in_a_variance_of_integers_is_an_integer(dtype: str) -> None:
    x = np.array([[0, 1, 2], [0, 0, 1]])
    for values in (x, x.astype(dtype)):
        assert wf.var(wf.asarray(values), 1, dtype).tolist() == np.var(values, 1, dtype).tolist()
        assert wf.var(wf.asarray(values), dtype=dtype) == np.var(values, dtype=dtype)


@pytest.mark.parametrize("name", ["sum", "all", "mean", "nansum"])
def test_a_mask_has_no_more_axes_than_the_operand(name: str) -> None:
    with pytest.raises(ValueError, match="axis remapping|broadcast"):
        getattr(wf, name)(wf.ones(3), where=np.ones((2, 3), bool))


@pytest.mark.parametrize("axis", [0, -1, 1, 2])
@pytest.mark.parametrize("name", ["mean", "var", "std", "nanmean", "sum", "max", "cumsum", "cumprod"])
def test_axes_of_an_array_without_axes(name: str, axis: int) -> None:
    try:
        expected = getattr(np, name)(np.array(2.0), axis)
    except np.exceptions.AxisError:
        with pytest.raises(np.exceptions.AxisError):
            getattr(wf, name)(wf.asarray(2.0), axis)
    else:
        assert getattr(wf, name)(wf.asarray(2.0), axis).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["max", "min"])
def test_complex_extremes_on_a_gpu_keep_the_signs_of_zeros(name: str) -> None:
    values = np.array([complex(-0.0, -0.0), complex(-0.0, 5), complex(-np.inf, -0.0), complex(np.nan, -0.0)])
    with wf.device("simt"):
        for k in range(1, 5):
            assert repr(complex(getattr(wf, name)(wf.asarray(values[:k])))) == repr(
                complex(getattr(values[:k], name)())
            )


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("axis", [(0, 1), (1, 0), (-1, 0)])
def test_the_first_nan_of_complex_numbers_does_not_depend_on_the_order_of_axes(
    axis: tuple[int, int], device: str
) -> None:
    values = np.zeros((3, 4), np.complex128)
    values[0, 2], values[1, 0] = complex(1, np.nan), complex(2, np.nan)
    with wf.device(device):
        assert np.asarray(wf.max(wf.asarray(values), axis)).real == np.max(values, axis).real == 1


@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize("method", ["reduce", "accumulate", "reduceat"])
@pytest.mark.parametrize("dtype", ["f4", "i8", "?"])
def test_the_output_of_a_ufuncs_method_determines_its_loop(dtype: str, method: str, immediate: int) -> None:
    """Test that the dtype of `out` selects the inner loop of ufunc methods such as `reduce`. Results and TypeErrors must be as in NumPy."""
    values = np.array([[1.25, 2.5, 1], [1.5, 1.25, 3], [1, 1, 2.5]]).astype(dtype)
    for name in "subtract divide logaddexp hypot arctan2 float_power floor_divide copysign logical_or equal".split():
        for output in ("f4", "f8", "?"):
            for options in ({}, {"dtype": "f8"}):
                indices = [[0, 2, 1]] if method == "reduceat" else []
                theirs = np.zeros((3,) if method == "reduce" else (3, 3), output)
                ours = wf.asarray(theirs.copy())
                with override(immediate=immediate):
                    try:
                        getattr(getattr(np, name), method)(values, *indices, axis=0, out=theirs, **options)
                    except TypeError:
                        with pytest.raises(TypeError):
                            getattr(getattr(wf, name), method)(
                                wf.asarray(values), *indices, axis=0, out=ours, **options
                            )
                        continue
                    getattr(getattr(wf, name), method)(wf.asarray(values), *indices, axis=0, out=ours, **options)
                np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
