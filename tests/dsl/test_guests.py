"""Tests of weft with foreign data and tools (guests): unsupported dtypes, operands of other classes, notebooks, and device names."""

from __future__ import annotations

import copy
import pickle
import sys
import types
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.kernel.language.kernel_errors import SourceLocation
from weft.runtime import show_location

NAMES = np.array(["b", "a", "b"])
OBJECTS = np.array([1, "x", None], dtype=object)


class Sparse:
    """A matrix with its own method for the product ``array @ matrix``."""

    __array_priority__ = 20

    def __rmatmul__(self, other: Any) -> str:
        return f"sparse of {other.shape}"


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.array(["a", "b"]),
        lambda m: m.asarray([1, None], dtype=object),
        lambda m: m.zeros(2, dtype=[("x", float), ("n", int)]),
        lambda m: m.array("2026-01-01", dtype="datetime64[D]"),
        lambda m: m.concatenate([NAMES, NAMES]),
        lambda m: m.where([True, False, True], NAMES, "c"),
        lambda m: m.unique(NAMES),
        lambda m: m.add(np.array([1, 2.5], dtype=object), m.ones(2)),
        lambda m: m.ones(3, dtype=np.longdouble) * 2,
    ],
)
def test_dtypes_without_weft_arrays_stay_numpys(call: Any) -> None:
    found, expected = call(wf), call(np)
    assert type(found) is np.ndarray
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def test_numpys_functions_take_both_kinds() -> None:
    mixed = np.concatenate([wf.arange(3), OBJECTS])
    assert mixed.tolist() == [0, 1, 2, 1, "x", None]
    assert np.add(wf.ones(3), np.array([1, 2, 3], dtype=object)).tolist() == [2.0, 3.0, 4.0]


def test_operators_refuse_what_they_cannot_hold() -> None:
    with pytest.raises(TypeError, match="did not contain a loop"):
        wf.ones(3) + NAMES


def test_a_product_is_left_to_who_knows_better() -> None:
    assert wf.ones((2, 3)) @ Sparse() == "sparse of (2, 3)"
    with pytest.raises(TypeError, match="unsupported operand"):
        wf.ones(3) @ "text"


def test_nothing_equals_none_or_text() -> None:
    x = wf.arange(3)
    assert (x == None).tolist() == [False] * 3  # noqa: E711
    assert (x != "a").tolist() == [True] * 3


def test_scalars_round_as_numpys() -> None:
    x = wf.asarray([2.5, 3.14159])
    assert (round(x[0]), type(round(x[0]))) == (2, int)
    assert float(round(x[1], 2)) == round(np.float64(3.14159), 2)
    assert round(wf.asarray([1234])[0], -2) == round(np.int64(1234), -2)


def test_a_misspelt_name_is_an_error_that_knows_its_module() -> None:
    with pytest.raises(AttributeError, match="lingspace") as caught:
        wf.lingspace(0, 1)
    assert caught.value.obj is wf
    assert "linspace" in dir(wf)


def test_a_cell_of_a_notebook_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compile("1\n2", "/tmp/ipykernel_7/123.py", "exec")
    location = SourceLocation(code.co_filename, 2, 4, 5, "    x = y")
    assert location.show().startswith('  File "/tmp/ipykernel_7/123.py", line 2\n')
    assert show_location((code, 0)).startswith("123.py:")
    compiler = types.SimpleNamespace(format_code_name=lambda name: ("Cell", "In[4]") if "ipykernel" in name else None)
    shell = types.SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert show_location((code, 0)).startswith("Cell In[4]:")
    assert location.show() == "  Cell In[4], line 2\n    x = y\n    ^"
    assert show_location((show_location.__code__, 0)).startswith("allocation_report.py:")


def test_explaining_prints_nothing_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    found = wf.explain(wf.ones(3) * 2)
    assert capsys.readouterr().out == ""
    assert repr(found) == str(found)
    assert "1 kernel" in str(found)


def test_devices_show_their_names() -> None:
    with wf.device("cpu"):
        assert repr(wf.ones(1).device) == "<device cpu>"


def test_devices_equal_their_names() -> None:
    """Test that a device equals its name.

    Libraries compare the device of an array with "cpu", the device of NumPy's arrays.
    """
    with wf.device("cpu"):
        found = wf.ones(1).device
    assert found == np.ones(1).device and found in ["cpu"] and hash(found) == hash("cpu")
    assert found != "gpu" and found != None and found != wf.device  # noqa: E711


def test_copies_of_scalars_are_scalars() -> None:
    x = wf.asarray([1.5, 2.5])
    for made in (copy.copy(x[1]), copy.deepcopy(x[1]), pickle.loads(pickle.dumps(x[1])), x[1].copy()):
        assert hash(made) == hash(2.5)
    zero = wf.asarray(2.5)  # a 0-d array is not a scalar
    for made in (copy.copy(zero), copy.deepcopy(zero), pickle.loads(pickle.dumps(zero)), zero.copy()):
        made[...] = 1
        assert float(made) == 1
    assert float(zero) == 2.5
