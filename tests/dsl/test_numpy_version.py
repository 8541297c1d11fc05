"""Tests that weft behaves like the installed version of NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.validation import NUMPY_VERSION, warn_deprecation
from weft.runtime import override

A = np.arange(12.0).reshape(3, 4)
CALLS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "meshgrid": lambda xp, to: xp.meshgrid(to(A[0]), to(A[1]), sparse=True, copy=False),
    "meshgrid with copies": lambda xp, to: xp.meshgrid(to(A[0]), to(A[1]), sparse=True),
    "row_stack": lambda xp, to: xp.row_stack((to(A[0]), to(A[1]))),
    "cross": lambda xp, to: xp.cross(to(A[:, :2]), to(A[:, :2])),
    "eigvals": lambda xp, to: xp.linalg.eigvals(to(np.array([[2.0, 1], [1, 3]]))),
    "roots": lambda xp, to: xp.roots(to(np.array([1.0, -3, 2]))),
    "bincount": lambda xp, to: xp.bincount(to(np.array([1.0, 2.0]))),
    "take": lambda xp, to: xp.take(to(A[0]), to(np.array([1, 2])), out=to(np.zeros(2, np.int32))),
    "tri": lambda xp, to: xp.tri(3.0, 4.0, -1.0),
    "tril": lambda xp, to: xp.tril(to(A), 1.0),
    "triu": lambda xp, to: xp.triu(to(A), -1.0),
    "rot90": lambda xp, to: xp.rot90(to(A), 1.0),
    "fix": lambda xp, to: xp.fix(to(A) - 4.5),
    "shape": lambda xp, to: _reshaped(to(A.copy())),
    "nanquantile": lambda xp, to: xp.nanquantile(to(A.astype(np.float32)), np.float64(0.3)),
    "quantile": lambda xp, to: xp.quantile(to(A.astype(np.float32)), 0.3),
    "tensordot": lambda xp, to: xp.tensordot(to(np.ones((2, 2))), to(np.ones((2, 2))), axes=([1, 1], [0, 0])),
}


def _reshaped(array: Any) -> Any:
    array.shape = 4, 3
    return array


def outcome(call: Callable[[Any, Callable[[Any], Any]], Any], xp: Any) -> Any:
    """Return the results and the deprecation warnings of a call, or the class of its exception.

    The first item is whether the call returned a list.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DeprecationWarning)
        try:
            found: Any = call(xp, xp.array)
        except (AttributeError, TypeError, ValueError) as error:
            return type(error)
    parts = found if isinstance(found, (tuple, list)) else [found]
    arrays = [np.asarray(part) for part in parts]
    shown = [(array.dtype, array.shape, array.round(6).tolist()) for array in arrays]
    # (a space in one of the texts depends on NumPy's patch version)
    return isinstance(found, list), shown, [str(each.message).replace(" ", "") for each in caught]


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("name", CALLS)
def test_the_installed_version_decides(name: str, device: str) -> None:
    with wf.device(device):
        assert outcome(CALLS[name], wf) == outcome(CALLS[name], np)


def matched(array: Any) -> Any:
    """Match an array against sequence patterns such as ``[one, two]``. Return a label for the matching pattern, and the values that it binds."""
    match array:
        case []:
            return "none"
        case [one, two]:
            return "two", np.asarray(one).tolist(), np.asarray(two).tolist()
        case [one, *others]:
            return "more", float(one), [float(each) for each in others]
    return "other"


@pytest.mark.parametrize("values", [np.zeros(0), A[0, :2], A[0], A[:2], A[0, :1]])
@pytest.mark.parametrize("immediate", [0, 16384])
def test_patterns_match_arrays_as_they_match_numpys(values: np.ndarray, immediate: int) -> None:
    with override(immediate=immediate):
        assert matched(wf.array(values) + 1) == matched(values + 1)
        assert not isinstance(wf.array(values), Sequence)
    assert (matched(A[0]) == "other") is (NUMPY_VERSION < (2, 5))


def test_warnings_of_later_versions_are_not_emitted() -> None:
    major, minor = NUMPY_VERSION
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_deprecation((major, minor + 1), "later")
        warn_deprecation((major, minor), "now")
        warn_deprecation((major - 1, minor + 1), "before")
    assert [str(each.message) for each in caught] == ["now", "before"]
    assert all(each.category is DeprecationWarning and each.filename == __file__ for each in caught)


def test_whole_numbers_are_not_deprecated() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = wf.array(A)
        same = wf.tri(np.int32(3), k=np.uint8(1)), wf.tril(x, np.int64(1)), wf.rot90(x, np.int8(-1))
    for found, wanted in zip(same, (np.tri(3, k=1), np.tril(A, 1), np.rot90(A, -1)), strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)
