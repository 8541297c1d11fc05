"""NumPy's classes of polynomials give weft arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

KINDS = ["Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre"]


def steps(xp: Any, kind: str) -> list[Any]:
    series = getattr(xp.polynomial, kind)
    p = series([1.0, 2.0, 3.0])
    x = xp.asarray([[0.5, 1.0], [2.0, -1.0]])
    fitted = series.fit(xp.arange(5.0), xp.arange(5.0) ** 2, 2)
    values = [p(x), (p * p - p + 2)(x), p.deriv()(x), fitted(x)]
    return [*values, p.integ().coef, series.basis(2).coef, (p // series([1.0, 1.0])).coef, p.roots()]


@pytest.mark.parametrize("kind", KINDS)
def test_series(kind: str) -> None:
    for ours, theirs in zip(steps(wf, kind), steps(np, kind), strict=True):
        assert isinstance(ours, wf.Array)
        np.testing.assert_array_equal(np.asarray(ours), theirs)
    p = wf.polynomial.Polynomial([1, 2])
    assert isinstance(p, np.polynomial.Polynomial) and p == np.polynomial.Polynomial([1, 2]) and p.degree() == 1
