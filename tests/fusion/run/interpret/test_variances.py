"""Tests that interpreted variances have the same bits as variances from compiled plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

pytestmark = pytest.mark.cpu

FORMS = {
    "std": lambda x: x.std(),
    "degrees of freedom": lambda x: (x.reshape(-1, 1) * 2).var(ddof=1),
    "powers": lambda x: ((x - x.mean()) ** 2).mean(),
    "products": lambda x: ((x - x.mean()) * (x - x.mean())).sum(),
    "standardized": lambda x: (x * x - (x * x).mean()) / (x * x).std(),
    "differences used twice": lambda x: (d := x - x.mean()) / np.sqrt((d * d).mean()),
    "not from the mean": lambda x: ((x - x.max()) ** 2).sum(),
    "of other values": lambda x: ((x[::-1] - x.mean()) ** 2).sum(),
}


def array(kind: str, size: int, what: str) -> np.ndarray[Any, Any]:
    """Return random numbers. The string `what` selects a variant with special values.

    "far" numbers are far from 0, "nan" and "inf" have one such element, and "equal" numbers are all equal.
    """
    x = np.random.default_rng(size).standard_normal(size).astype(kind)
    if what == "far":
        x += 1e4
    elif what in ("nan", "inf"):
        x[size // 3] = float(what)
    elif what == "equal":
        x[:] = 0.1
    return x


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("size", "kind", "what"), [
    (32_769, "f4", "normal"), (40_000, "f8", "far"), (100_000, "f4", "nan"), (131_072, "f8", "inf"), (300_007, "f4", "equal"),
    (20_000, "f8", "normal"), (131_072 + 16_384, "f4", "far"),
])  # fmt: skip
def test_bits(form: str, size: int, kind: str, what: str) -> None:
    x, results = array(kind, size, what), []
    for how in ("always", "never"):
        with override(interpret=how):
            results.append(np.asarray(FORMS[form](wf.asarray(x))))
    assert results[0].dtype == results[1].dtype and results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form not in ("products", "not from the mean", "of other values")]
)
def test_variances_need_no_plan(form: str) -> None:
    wf.reset_statistics()
    with override(interpret="always"):
        wf.evaluate(FORMS[form](wf.asarray(array("f8", 100_000, "normal"))))
    counts = wf.statistics()
    assert not counts["plans"] and counts["interpreted"]


def test_a_mean_that_was_evaluated_before() -> None:
    x, results = array("f8", 100_000, "far"), []
    for how in ("always", "never"):
        with override(interpret=how):
            y = wf.asarray(x) * 2
            mean = y.mean()
            wf.evaluate(mean)
            results.append(np.asarray(((y - mean) ** 2).sum()))
    assert results[0].tobytes() == results[1].tobytes()


def test_divisors_that_are_not_the_number_of_elements() -> None:
    x = array("f8", 100_000, "normal")
    for divisor in (100_000.0, 1000.0, 100_000.0):
        with override(interpret="always"):
            y = wf.asarray(x)
            found = np.asarray(((y - y.sum() / divisor) ** 2).sum())
        np.testing.assert_allclose(found, ((x - x.sum() / divisor) ** 2).sum())
