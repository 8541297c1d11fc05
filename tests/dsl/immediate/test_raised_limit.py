"""Tests of immediate execution with a raised limit.

The limit is raised while programs are compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import runtime
from weft.dsl.functions.own_names import OWN
from weft.fusion.graph.reduction_order import REDUCTION_BLOCK
from weft.runtime import FIXED, RAISED, override, raise_immediate, reset_immediate, setting

IMMEDIATE = 32768

# Functions whose results are not arrays of numbers, or that take other arguments.
_OTHER = frozenset(
    "array2string array_repr array_str bmat can_cast common_type diag diagflat dtype empty empty_like histogramdd info"
    " iterable load min_scalar_type mintypecode printoptions result_type save savetxt savez set_printoptions"
    " shares_memory typename vander".split()
)


@pytest.fixture
def raised() -> Iterator[Callable[[], None]]:
    yield raise_immediate
    reset_immediate()


def _call(function: Callable[..., Any], arguments: Any, options: dict[str, Any]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = function(*arguments, **options)
            parts = found if type(found) in (list, tuple) else [found]
            return [(each.shape, each.dtype, each.tobytes()) for each in map(np.asarray, parts)]
        except Exception:
            return Exception  # (the errors may differ)


def _same(function: Callable[..., Any], values: list[np.ndarray], **options: Any) -> bool:
    """Return whether a function gives the same bits with a raised limit and with a lower one."""
    found = []
    for immediate in (True, False):
        with override(immediate=IMMEDIATE if immediate else IMMEDIATE // 2):
            if immediate:
                raise_immediate()
            found.append(_call(function, [wf.evaluate(wf.asarray(each)) for each in values], options))
    return found[0] == found[1]


@pytest.mark.parametrize("code", ["d", "f", "B"])
@pytest.mark.usefixtures("raised")
def test_functions_of_medium_arrays_have_the_same_bits(code: str) -> None:
    shape = (160 * 8 // max(2, np.dtype(code).itemsize), 125)  # (above the lower limit, which depends on the dtype)
    given = (np.abs(np.random.default_rng(0).normal(size=shape)) * 10).astype(code)
    different = []
    for name in sorted(set(OWN) - _OTHER):
        function = OWN[name]
        if not callable(function) or isinstance(function, type) or OWN.numpys(name) is None:
            continue
        for options in ({}, {"axis": 0}, {"axis": -1}, {"axis": 1, "keepdims": True}):
            if not _same(function, [given], **options):
                different.append((name, options))
    assert not different


@pytest.mark.parametrize("code", ["d", "f"])
@pytest.mark.usefixtures("raised")
def test_products_and_sums_of_medium_arrays_have_the_same_bits(code: str) -> None:
    numbers = np.random.default_rng(1)
    flat, square, row = (numbers.normal(size=shape).astype(code) for shape in (40_000, (200, 200), 200))
    short = numbers.normal(size=(8_000, 5)).astype(code)
    for function in (wf.dot, wf.inner, wf.vdot, wf.matmul, np.matmul, wf.vecdot, np.add.reduce):
        for values in ([flat, flat], [square, square], [square, row], [short, short.T[:, :5].copy()], [square]):
            assert _same(function, values), (function, [each.shape for each in values])
    for values in (flat, square, square.T, square[:, ::2]):
        assert _same(wf.linalg.norm, [values]), values.shape
    assert _same(wf.cov, [square]) and _same(wf.corrcoef, [square])
    for subscripts in ("ij,ij->", "ij,ij->i", "ij,jk->ik", "ij,j->i", "ij->j"):
        values = {"j": row, "jk": square}.get(subscripts.partition("->")[0].partition(",")[2], square)
        pair = [square] if "," not in subscripts else [square, values]
        assert _same(partial(wf.einsum, subscripts), pair), subscripts
    for ufunc in (wf.add, wf.multiply, wf.maximum):
        for axis in (0, 1, None):
            assert _same(ufunc.reduce, [square], axis=axis), (ufunc, axis)
        assert _same(ufunc.accumulate, [square], axis=1), ufunc


def test_arguments_of_reductions_of_medium_arrays() -> None:
    values = np.random.default_rng(2).normal(size=(160, 125))
    x = wf.asarray(values)
    assert wf.sum(x, axis=0, keepdims=1).shape == (1, 125)  # type: ignore[call-overload]
    assert wf.mean(x, 1, keepdims=np.True_).shape == (160, 1)  # type: ignore[call-overload]
    assert wf.sum(x, axis=0, dtype=np.float32).dtype == np.float32
    for arguments, options in (((x, 0), {"axis": 0}), ((x, 0), {"other": 0})):
        with pytest.raises(TypeError):
            wf.sum(*arguments, **options)  # type: ignore[call-overload]
    with pytest.raises(np.exceptions.AxisError):
        wf.sum(x, axis=2)


def test_the_fixed_limit_is_within_a_block_of_a_reduction() -> None:
    assert runtime.IMMEDIATE[FIXED] <= REDUCTION_BLOCK


def test_the_limit_is_raised_and_reset() -> None:
    raise_immediate()
    assert runtime.IMMEDIATE[0] == RAISED * setting("immediate")
    with override(cache=False):
        assert runtime.IMMEDIATE[0] == RAISED * setting("immediate")
    assert runtime.IMMEDIATE[0] == RAISED * setting("immediate")
    reset_immediate()
    assert runtime.IMMEDIATE[0] == setting("immediate")
    with override(immediate=100):
        assert list(runtime.IMMEDIATE) == [100] * 3
    with override(immediate=0):
        raise_immediate()
        assert runtime.IMMEDIATE[0] == 0
