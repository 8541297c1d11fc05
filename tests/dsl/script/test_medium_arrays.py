"""Tests of NumPy calls in scripts. The calls create arrays of up to 10,000 elements, or take scalars that have not been computed yet."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.array import Scalar
from weft.dsl.script import native_script, script_function, script_namespace
from weft.dsl.script.script_namespace import script_module
from weft.runtime import SEVERAL_DEVICES

IMMEDIATE = 16384
# Calls, and whether weft supports the dtype of the result.
CALLS = {
    "xp.zeros(1000)": True,
    "xp.zeros((10, 100), dtype=xp.float32)": True,
    "xp.zeros(1000, 'i2')": True,
    "xp.zeros(1000, '>f8')": True,
    "xp.zeros((40, 50), order='F')": True,
    "xp.zeros(1000, dtype='U3')": False,
    "xp.ones((1000,), dtype=complex)": True,
    "xp.ones(1000, dtype=xp.longdouble)": False,
    "xp.full(1000, 2.5)": True,
    "xp.full((4, 250), True)": True,
    "xp.arange(1000)": True,
    "xp.arange(0, 100, 0.25)": True,
    "xp.linspace(0, 1, 1000)": True,
    "xp.linspace(0, 1, 10000)": True,
    "xp.array([1.5] * 1000)": True,
    "xp.asarray(range(1000))": True,
}


@pytest.fixture(params=["python", "native"])
def xp(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Yield a new namespace for scripts, with functions in Python or in native code."""
    monkeypatch.setattr(script_namespace, "is_program", lambda frame: "__name__" not in frame.f_globals)
    if request.param == "python":
        monkeypatch.setattr(script_function, "_native", [])
        monkeypatch.setattr(script_function, "_count_call", lambda: None)
    else:
        script_function.install_native_code()
    several = SEVERAL_DEVICES[0]
    yield script_module.__wrapped__("numpy")  # (programs that other tests load keep the cached namespace)
    SEVERAL_DEVICES[0] = several


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("call", CALLS)
def test_new_arrays_have_numpys_elements(call: str, single: bool, xp: Any) -> None:
    # (native code creates arrays only in a process with one device)
    SEVERAL_DEVICES[0] = not single
    found, expected = eval(call, {"xp": xp}), eval(call, {"xp": np})
    assert type(found) is (wf.Array if CALLS[call] else np.ndarray)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.strides == expected.strides and np.array_equal(np.asarray(found), expected)
    if CALLS[call]:
        found[...] = 1
        assert np.array_equal(found + found, np.real(found) + 1) or found.dtype == bool


def test_new_arrays_are_on_the_default_device(xp: Any) -> None:
    for _ in range(2):
        assert xp.zeros(1000).device.name == "cpu"
        with wf.device("simt"):
            assert xp.zeros(1000).device.name == "simt"
            assert xp.arange(1000).device.name == "simt"


def test_new_arrays_are_freed(xp: Any) -> None:
    device = wf.default_device()
    before = sys.getrefcount(device)
    tracemalloc.start()
    for _ in range(1000):
        xp.zeros(1000)
    traced, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert traced < 1_000_000 and abs(sys.getrefcount(device) - before) < 100


SCALAR_CALLS = [
    "xp.sqrt(s)",
    "xp.maximum(s, 0.5)",
    "xp.maximum(0.5, s)",
    "xp.where(s > 0, s, -s)",
    "xp.sum(s)",
    "xp.clip(s, 0, 1)",
    "xp.full(3, s)",
    "xp.stack([s, s])",
    "xp.random.default_rng(3).normal(s, 2.0, 4)",
    "xp.copyto(target, s) or target",
]


@pytest.mark.parametrize("call", SCALAR_CALLS)
def test_functions_take_pending_scalars(call: str, xp: Any) -> None:
    results = []
    for module in (np, xp):
        x = module.asarray(np.linspace(0.0, 1.0, 40_000)) + 0
        s = (x * x).sum()
        given = {"xp": module, "s": s, "target": np.zeros(3)}
        results.append(np.asarray(eval(call, given)))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-14, strict=True)


def test_native_code_gives_a_pending_scalar_to_wefts_function() -> None:
    def slow(*arguments: Any) -> str:
        return "slow"

    s = (wf.asarray(np.ones(40_000)) + 1).sum()
    made = native_script.make_native(np.sqrt, lambda *x: "own", slow, script_function.MemoryEffect.COMPUTE)
    assert type(s) is Scalar and made(s) == "own"
    made = native_script.make_native(np.copyto, lambda *x: "own", slow, script_function.MemoryEffect.WRITE)
    assert made(s, 1.0) == made(np.zeros(3), s) == "slow"


@pytest.mark.parametrize("other", ["f8", "f4"])
def test_a_list_of_rows_becomes_a_new_array(other: str, xp: Any) -> None:
    table, last = xp.arange(1200.0).reshape(300, 4), xp.zeros((100, 4), other)[7]
    rows = [row for row in table if row[0] % 8]
    found = xp.array([*rows, last])
    assert (script_function._values_of_rows([*rows, last]) is None) == (other == "f4")  # (rows of two dtypes)
    table[:] = -1.0
    expected = np.arange(1200.0).reshape(300, 4)[1::2]
    assert found.dtype == "f8" and np.array_equal(found[:-1], expected) and not np.asarray(found)[-1].any()
    with pytest.raises(ValueError, match="inhomogeneous"):
        xp.array([*rows, table[0, :3]])
