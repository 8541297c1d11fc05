"""Tests of the options and the output arrays of matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import reset_statistics, statistics

IMMEDIATE = 0
X = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("options", [{"dtype": "i8"}, {"dtype": "f4", "casting": "safe"}, {"dtype": "?"}], ids=str)
def test_operands_of_a_product_are_cast_by_the_rule(options: Any) -> None:
    for call in (lambda: np.matmul(X, X.T, **options), lambda: wf.matmul(wf.asarray(X), wf.asarray(X).T, **options)):
        with pytest.raises(TypeError, match="Cannot cast ufunc 'matmul' input"):
            call()


@pytest.mark.parametrize("options", [{"dtype": "f4"}, {"order": "F"}, {"dtype": "i8", "casting": "unsafe"}], ids=str)
def test_options_of_a_product(options: Any) -> None:
    expected, found = np.matmul(X, X.T, **options), wf.matmul(wf.asarray(X), wf.asarray(X).T, **options)
    assert found.tolist() == expected.tolist() and found.dtype == expected.dtype
    assert found.flags["F_CONTIGUOUS"] == expected.flags["F_CONTIGUOUS"]


@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (1,), (4,), ()])
def test_the_output_of_an_einsum_has_its_shape(shape: Any) -> None:
    for xp in (np, wf):
        with pytest.raises(ValueError, match="out|shape"):
            xp.einsum("ij->i", xp.asarray(X), out=xp.zeros(shape))


@pytest.mark.parametrize("code", "FD")
def test_blas_multiplies_complex_matrices_with_short_sums(code: str) -> None:
    """Test that BLAS multiplies complex matrices without a kernel, even if each element of the product is a sum of only two terms.

    The result has the same bits as the product of pending operands.
    """
    source = np.random.default_rng(3)
    x, y = ((source.normal(size=s) + 1j * source.normal(size=s)).astype(code) for s in ((2, 2), (2, 30_000)))
    a, b = wf.evaluate(wf.asarray(x), wf.asarray(y))
    reset_statistics()
    found = np.asarray(a @ b)
    assert statistics()["kernels"] == 0
    assert found.tobytes() == np.asarray((a * 1) @ (b * 1)).tobytes()
    assert np.allclose(found, x @ y, rtol=1e-5)
