"""Tests of the installation of native code.

Native code also replaces functions of NumPy's submodules.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.special_values import same
from weft.dsl.immediate import at_call as immediate
from weft.dsl.immediate import native_immediate
from weft.runtime import CompileError, override

IMMEDIATE = 16384
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("order", [("immediate", "operators"), ("operators", "immediate")], ids="-".join)
def test_native_code_is_installed_in_any_order(order: tuple[str, str]) -> None:
    code = f"""
from inspect import signature
import numpy as np
import weft as wf
from weft.dsl.arrays import native_operators as operators
from weft.dsl.immediate import native_immediate as immediate

small, large, scale = wf.arange(4.0), wf.arange(40_000.0), np.float64(2)
for module in ({order[0]}, {order[1]}):
    module.install_native_code()
    for x in (small, large):
        for _ in range(3):
            assert np.array_equal(np.asarray(scale * x), 2 * np.arange(float(x.size)))
            assert np.array_equal(np.asarray(x + x), 2 * np.arange(float(x.size)))
            assert x.sum() == np.arange(float(x.size)).sum()
assert all(not hasattr(vars(wf.Array)[name], "__code__") for name in ("__add__", "__array_ufunc__"))
assert str(signature(wf.Array.__array_ufunc__)) == "(self, ufunc, method, *inputs, **options)"
"""
    env = os.environ | {"WEFT_STRICT": "1", "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_functions_of_submodules_have_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.array([[4.0, 1.0], [1.0, 3.0]])
    x = wf.asarray(given)
    names = ("inv", "det", "solve", "cholesky", "eigh", "norm", "matmul")
    for name in names:  # (functions are loaded on first use)
        getattr(wf.linalg, name)
    native_immediate.install_native_code()
    for name in names:
        function = getattr(wf.linalg, name)
        assert not hasattr(function, "__code__"), name
        with monkeypatch.context() as patched:
            patched.setattr(immediate, "call_small", None)
            arguments = (x, x) if name in ("solve", "matmul") else (x,)
            found = function(*arguments)
        expected = getattr(np.linalg, name)(*[given for _ in arguments])
        for one, other in zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]:
            assert same(one, other), name
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        wf.linalg.inv(wf.zeros((2, 2)))


@pytest.mark.parametrize("strict", [False, True])
def test_native_code_that_cannot_be_compiled_is_told_of_once(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise CompileError("no room")

    monkeypatch.setattr(native_immediate, "INSTALLED", {})
    monkeypatch.setattr(native_immediate, "_failed", [])
    monkeypatch.setattr(native_immediate, "make_immediate", fails)
    with override(strict=strict):
        with (
            pytest.raises(CompileError, match="no room")
            if strict
            else pytest.warns(wf.OptimizerWarning, match="no room")
        ):
            native_immediate.install_native_code()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            native_immediate.install_native_code()
