"""Tests that recordings end between operations, and never within an operation.

The results equal NumPy's for any number of pending operations.
"""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.fuzz import graphs, orders
from tests.fuzz.programs import differences
from weft.dsl.arrays.array import expr_of, record
from weft.fusion import map_
from weft.runtime import override

LIMIT = 3
# (negative floats are cast to unsigned integers by another rule than NumPy's)
EXACT = sorted({t for group in (*graphs.GROUPS, graphs.WRITES) for t in group if "astype('u" not in t})
ROUNDED = sorted({*orders.STATISTICS, *orders.CHANGES})
# All forms of reductions that take several steps.
FORMS = (
    "xp.var(A, d, ddof=1, keepdims=True)|A.var(d, where=A > 0)|A.std(d, where=A > 0)|xp.std(A, d, dtype='float32')|xp.var(A.astype('float16'), d)|xp.std(A, mean=A.mean())"
    "|xp.nanstd(A, d)|xp.nanvar(A, d)|xp.nanmean(A, d)|xp.mean(A, d, where=A > 0)|xp.average(A, d, weights=abs(A) + 1)|xp.ptp(A, d, keepdims=True)|xp.ptp(A, d)"
    "|(A - A.mean()) / A.std()|xp.cov(A)|xp.corrcoef(A)|xp.linalg.norm(A, axis=d)|xp.linalg.norm(A)|xp.quantile(A, 0.3, d)|xp.percentile(A, [10, 60], d)"
    "|xp.nanmedian(A, d)|xp.interp(A, xp.arange(5.0), xp.arange(5.0) ** 2)|xp.gradient(A, axis=d)|xp.trapezoid(A, axis=d)|xp.cross(A[:, :3], B[:, :3])"
    "|xp.isclose(A, B)|xp.allclose(A, B)|xp.array_equal(A, B)|xp.unwrap(A)|xp.histogram(A, 5)[0]|xp.std(A, d, out=T[0])|xp.mean(A, 0, out=T[0])|xp.var(A, 0, out=T[0])"
    "|xp.sinc(A)|xp.angle(A + 1j)|xp.var(A + 1j * B, d)|xp.nancumsum(A, d)|xp.logaddexp(A, B)|xp.hypot(A, B)|xp.polyval([1.0, 2.0, 3.0], A)|xp.convolve(A[0], B[0])"
).split("|")


def filled(template: str) -> str:
    """Replace the letters of a template by constants and names of variables.

    The function `start` creates the variables.
    """
    pick = random.Random(template)
    letters = {
        "A": "x",
        "B": "y",
        "T": "t",
        "I": "j",
        "d": pick.choice("01"),
        "e": "1",
        "q": "2",
        "s": "1:",
        "p": "(1, 0)",
        "D": "float64",
    }
    return re.sub(r"(?<![\w.'])[ABTIdeqsp](?![\w'])|(?<=[.'])D(?=['(])", lambda found: letters[found[0]], template)


def start(exact: bool) -> dict[str, np.ndarray]:
    source = np.random.default_rng(3)
    values = {name: source.integers(-6, 9, (6, 6)) * 0.5 + 0.25 * (not exact) for name in "xyt"}
    if not exact:
        values = {name: value + source.standard_normal((6, 6)) for name, value in values.items()}
    return {**values, "j": np.array([2, 0, 1, 5, 3, 4])}


def run(line: str, xp: Any, values: dict[str, Any], lines_above: int = 0) -> dict[str, Any]:
    """Run a statement, and return the variables.

    `lines_above` determines the line of the statement, and thereby the call site.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        text = line if re.search(r"[^=<>!]=[^=]", re.sub(r"\(.*\)", "", line)) else f"v = {line}"
        exec(compile("\n" * lines_above + text, "cuts", "exec"), {"xp": xp, "n": 6, "m": 6}, values)
    return values


def fails(template: str, exact: bool) -> str:
    """Run a statement once for each number of pending operations from 0 to LIMIT. Return the first difference from NumPy's results, or "".

    If NumPy raises an exception, or the result is not an array or a scalar, return "refused".
    """
    line = filled(template)
    given = start(exact)
    try:
        wanted = run(line, np, {name: value.copy() for name, value in given.items()})
    except Exception:
        return "refused"
    if not isinstance(wanted.get("v", given["x"]), np.ndarray | np.generic | bool):
        return "refused"
    for count in range(LIMIT + 1):
        other = wf.asarray(np.arange(10.0))
        wf.evaluate(other + 1)  # starts a recording
        for _ in range(count):
            other = other * 0.5
        found = run(line, wf, {name: wf.asarray(value) for name, value in given.items()}, count)
        for name, value in wanted.items():
            trouble = differences({name: np.array(found[name])}, {name: np.asarray(value)}, not exact)
            if trouble:
                return f"{line} behind {count} operations: {trouble}"
    return ""


# (a recording ends at the same operation in both modes; only one part is compiled, since interpretation is faster)
WAYS = ["never", *["always"] * 7]


@pytest.mark.parametrize("part", range(8))
def test_exact_functions(part: int) -> None:
    with override(interpret=WAYS[part]):
        check(EXACT[part::8], True)


@pytest.mark.parametrize("part", range(4))
def test_rounded_functions(part: int) -> None:
    with override(interpret=WAYS[part]):
        check([*ROUNDED, *FORMS][part::4], False)


def check(templates: list[str], exact: bool) -> None:
    with orders.recording_limit(LIMIT):
        found = {template: fails(template, exact) for template in templates}
    assert sum(trouble == "refused" for trouble in found.values()) < len(found) / 3
    assert [trouble for trouble in found.values() if trouble not in ("", "refused")] == []


def test_the_case_that_was_seen() -> None:
    values = np.random.default_rng(0).normal(1000, 1, (50, 40))
    for count in range(250, 260):
        other = wf.asarray(np.arange(10.0))
        wf.evaluate(other + 1)
        for _ in range(count):
            other = other * 0.99
        x = wf.asarray(values)
        np.testing.assert_array_equal(wf.ptp(x, axis=1), np.ptp(values, axis=1))


def test_an_expression_of_a_recording_that_ended_is_refused() -> None:
    x, y = wf.asarray(np.arange(5.0)), wf.asarray(np.arange(7.0))
    expr_of(y)  # takes the first slot
    node = map_("add", [expr_of(x), expr_of(x)])
    wf.evaluate(record(node))
    with pytest.raises(RuntimeError, match="recording that has ended"):
        record(node)


@pytest.mark.parametrize("limit", [pytest.param(20, marks=pytest.mark.slow), 23, 40])
def test_normalised_convolutions_written_as_loops(limit: int) -> None:
    """Compare normalized convolutions with NumPy's results. Recordings are limited to `limit` pending operations."""

    def convolve(xp: Any, x: Any, w: Any) -> Any:
        size = w.shape[0]
        out = xp.empty((x.shape[0], x.shape[1] - size + 1, x.shape[2] - size + 1, w.shape[3]), dtype=np.float32)
        for i in range(out.shape[1]):
            for j in range(out.shape[2]):
                out[:, i, j, :] = xp.sum(x[:, i : i + size, j : j + size, :, None] * w[None], axis=(1, 2, 3))
        return out

    def program(xp: Any, x: Any, first: Any, second: Any) -> Any:
        padded = xp.zeros((x.shape[0], x.shape[1] + 2, x.shape[2] + 2, first.shape[3]))
        padded[:, 1:-1, 1:-1, :] = convolve(xp, x, first)
        for weights in (second, second):
            padded = convolve(xp, padded, weights)
            padded = (padded - xp.mean(padded, axis=0, keepdims=True)) / xp.sqrt(
                xp.std(padded, axis=0, keepdims=True) + 0.1
            )
        return padded

    source = np.random.default_rng(4)
    values = [source.random(shape, np.float32) for shape in ((2, 5, 5, 3), (1, 1, 3, 2), (3, 3, 2, 2))]
    with orders.recording_limit(limit):
        found = program(wf, *map(wf.asarray, values))
        np.testing.assert_allclose(found, program(np, *values), rtol=1e-4, atol=1e-4)
