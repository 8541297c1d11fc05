"""Tests of the mapping from NumPy's functions to weft's functions."""

from __future__ import annotations

import inspect
from importlib import import_module

import numpy as np
import pytest

import weft as wf
from weft.dsl.functions.own_names import OWN, find_own

LISTED = "linear histograms sorting quantiles sets along_axis selection nan_statistics calculus".split()


@pytest.mark.parametrize("module", LISTED)
def test_public_functions_of_modules_are_listed(module: str) -> None:
    found = import_module(f"weft.dsl.functions.{module}")
    for name in found.__all__:
        own = OWN[name]
        # (native code may already have replaced the function)
        assert inspect.isbuiltin(own) or inspect.unwrap(own) is inspect.unwrap(getattr(found, name))


def test_functions_of_numpy_lead_to_their_counterparts() -> None:
    for name, own in OWN.items():
        theirs = getattr(np, name, None)
        if callable(theirs) and name != "ndarray":
            found = find_own(theirs)
            assert found is own or getattr(np, getattr(found, "__name__", "")) in (theirs, np.concatenate), name
        assert getattr(wf, name) is own
    assert find_own(len) is None
    view = find_own(np.lib.stride_tricks.sliding_window_view)
    assert view is not None and view(wf.arange(4), 2).tolist() == [[0, 1], [1, 2], [2, 3]]


def test_names_without_dtype_of_weft_are_numpys() -> None:
    assert wf.sort(np.array(["b", "a"])).tolist() == ["a", "b"]
    assert "sum" in dir(wf) and "linalg" in dir(wf) and "evaluate" in dir(wf)
    with pytest.raises(AttributeError, match="NumPy has none"):
        _ = wf.nothing_of_the_kind
