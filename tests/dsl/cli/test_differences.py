"""Tests of the comparison of results by ``weft run --compare``."""

from __future__ import annotations

import numpy as np
import pytest

from weft.dsl.cli.differences import ResultComparison, scales_of

JUDGE = ResultComparison({}, "", (10.0,))


def _verdict(wanted: object, found: object, judge: ResultComparison = JUDGE) -> tuple[str, bool]:
    ((_, verdict, good),) = judge.arrays({"x": np.asarray(wanted)}, {"x": np.asarray(found)})
    return verdict, good


def test_a_residual_is_judged_by_the_programs_values() -> None:
    assert _verdict(3.1e-14, 1.7e-14)[1]
    assert _verdict([3e-14, -1e-14], [1e-14, 2e-14])[1]
    assert not _verdict(3.1e-14, 1.7e-14, ResultComparison({}, "", (1e-6,)))[1]
    assert not _verdict(3.1e-6, 1.7e-6)[1] and not _verdict([1.0, 2.0], [1.0, 2.1])[1]


def test_vectors_may_differ_in_sign() -> None:
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 3)))[0]
    for found in (vectors * [1, -1, -1], (vectors * [-1, 1, 1]).T):
        wanted = vectors if found.shape == vectors.shape else vectors.T
        assert _verdict(wanted, found) == (f"float64{list(wanted.shape)} equal but for the signs of vectors", True)
    assert not _verdict(vectors, np.abs(vectors))[1]
    assert not _verdict(3.0, -3.0)[1] and not _verdict([1, 2], [-1, -2])[1]


def test_not_a_number_and_infinity_are_differences() -> None:
    assert not _verdict([1.0, np.nan], [1.0, 2.0])[1] and not _verdict([1.0, np.inf], [1.0, 2.0])[1]
    assert _verdict([1.0, np.nan], [1.0 + 1e-15, np.nan])[1] and not _verdict([1.0], [1.0, 1.0])[1]


def test_large_integers_and_missing_times() -> None:
    assert not _verdict([2**60], [2**60 + 1])[1] and _verdict([2**60], [2**60])[1]
    times = np.array(["2020-01-01", "NaT"], "datetime64[D]")
    assert _verdict(times, times.copy()) == ("datetime64[D][2] equal", True) and not _verdict(times, times[::-1])[1]


def test_what_differs_under_numpy_is_not_judged() -> None:
    judge = ResultComparison({"x": np.asarray(5.0)}, "took 5 s\nsum 1\n", (1.0,))
    assert _verdict(4.0, 6.0, judge)[1]
    rows = judge.printed("took 4 s\nsum 1\n", "took 3 s\nsum 2\n", signs=False)
    assert [good for _, _, good in rows] == [True, True, False]


@pytest.mark.parametrize(
    ("theirs", "ours", "good"),
    [
        ("residual 3.1e-13", "residual 1.7e-13", True),
        ("residual 3.1e-7", "residual 1.7e-7", False),
        ("x = 0.5", "x = -0.5", False),
        ("x = 12345.6", "x = 12345.7", True),
        ("rows 3", "columns 3", False),
        ("[ 1.0 2.0]", "[1.0 2.0]", True),
    ],
)
def test_printed_numbers(theirs: str, ours: str, good: bool) -> None:
    assert all(row[2] for row in JUDGE.printed(theirs, ours, signs=False)) == good


def test_printed_signs_follow_those_of_arrays() -> None:
    assert all(row[2] for row in JUDGE.printed("x = 0.5", "x = -0.5", signs=True))


def test_the_scales_are_those_of_arrays() -> None:
    arrays = {"x": np.array([1.0, -4.0, np.inf]), "y": np.ones(2), "n": np.asarray(1e9), "k": np.array([10**9])}
    assert scales_of(arrays, "99") == (1, 4)
    assert scales_of({}, "values 3 and -7.5") == (3, 7.5) and scales_of({}, "") == ()


def test_the_sentence_names_the_smallest_values_whose_rounding_explains_a_difference() -> None:
    judge = ResultComparison({}, "", (1e-3, 2.5, 1600.0))
    assert _verdict(3e-14, 1e-14, judge)[0].endswith("; rounding errors (the arrays have values up to 2.5)")
    assert _verdict(3e-10, 1e-10, judge)[0].endswith("; rounding errors (the arrays have values up to 1.6e+03)")
    assert not _verdict(3e-8, 1e-8, judge)[1]
    row = judge.printed("residual 3e-14 of 7", "residual 1e-14 of 7", signs=False)[1]
    assert row[1:] == ("numbers differ by rounding errors (the arrays have values up to 2.5)", True)
    for text in ("-0.0", "1.0e0"):
        (row, _) = sorted(judge.printed(text, text.replace(".0", ""), signs=False), reverse=True)
        assert row[1:] == ("numbers are equal, but are written differently", True)
