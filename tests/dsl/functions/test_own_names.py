"""Tests of the mapping from NumPy's functions to weft's functions."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from IPython.lib.pretty import pretty

import weft as wf
from weft.dsl.functions.own_names import OWN, find_own


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


PICKLES = """
import pickle, sys
import numpy as np
import weft as wf
from weft.dsl.immediate.native_immediate import install_native_code
from weft.dsl.functions.own_names import OWN_IN

def check():
    for own in OWN_IN.values():
        if own.module == "weft.lib.stride_tricks":
            continue
        for name in own:
            function = own[name]
            if callable(function) and not isinstance(function, type):
                found = pickle.loads(pickle.dumps(function))
                assert found is function or found.__name__ in (name, function.__name__), (own.module, name, found)
    for function in (wf.bartlett, wf.linalg.eig, wf.random.normal):
        assert pickle.loads(pickle.dumps(function)).__name__ == function.__name__

check()
sum_before = pickle.dumps(wf.sum)
install_native_code()
assert type(wf.sum) is type(len), type(wf.sum)
check()
assert pickle.loads(sum_before) is wf.sum
assert wf.sum.__qualname__ == "weft.sum" and wf.linalg.norm.__qualname__ == "weft.linalg.norm"
sys.stdout.buffer.write(pickle.dumps([wf.sum, wf.linalg.det, wf.round, wf.sin]))
"""


def test_functions_can_be_pickled() -> None:
    done = subprocess.run([sys.executable, "-c", PICKLES], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    total, det, nearest, sine = pickle.loads(done.stdout)
    assert total([1, 2]) == 3 and nearest(2.6) == 3 and float(det(np.eye(2))) == 1 and sine is wf.sin


def test_names_and_modules_are_public() -> None:
    assert wf.nansum.__module__ in ("weft", None) and "weft.nansum" in pretty(wf.nansum)
    assert "weft.linalg.pinv" in pretty(wf.linalg.pinv)


def test_submodules_can_be_imported() -> None:
    text = (
        "from weft.linalg import inv\nimport weft.fft as fft\nimport weft.random\nimport weft as wf\n"
        "assert fft is wf.fft and weft.random.default_rng is wf.random.default_rng and wf.linalg.inv is inv"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
