"""Tests of calls on small arrays that are rows of large ones, or are in lists. Nothing is recorded for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.special_values import same
from weft.dsl.immediate import at_call, native_immediate
from weft.dsl.script import script_namespace
from weft.runtime import override

IMMEDIATE = 16384
LARGE = np.random.default_rng(7).normal(size=(300, 200))
WHOLE = np.random.default_rng(8).integers(-9, 9, (300, 200))
Program = Callable[..., Any]


def _arrays(convert: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return a row of floats, one of integers, and two matrices with strides, all views of large arrays."""
    floats, integers = convert(LARGE.copy()), convert(WHOLE.copy())
    return floats[4], integers[5], floats[:12, :9], integers[3:7, 2:5].T


def _check(program: Program, xp: Any = wf) -> None:
    wanted = program(np, *_arrays(np.array))
    arrays = _arrays(wf.asarray)
    before = wf.statistics()
    found = program(xp, *arrays)
    assert wf.statistics() == before, "something was evaluated"
    found, wanted = ([*each] if isinstance(each, (tuple, list)) else [each] for each in (found, wanted))
    assert len(found) == len(wanted)
    for own, theirs in zip(found, wanted, strict=True):
        assert not isinstance(own, wf.Array) or own._values is not None, "something was recorded"
        assert same(own, theirs)
        assert np.asarray(own).flags.fnc == np.asarray(theirs).flags.fnc


IN_NATIVE_CODE: list[Program] = [
    lambda xp, x, i, m, t: xp.concatenate([[0.5], x]),
    lambda xp, x, i, m, t: xp.concatenate((x, [1, 2], (3.0,))),
    lambda xp, x, i, m, t: xp.concatenate([[], i]),
    lambda xp, x, i, m, t: xp.convolve(x, [1.0, 2.0], "same"),
    lambda xp, x, i, m, t: xp.searchsorted(xp.sort(x), x, side="right"),
    lambda xp, x, i, m, t: xp.unique(i, return_counts=True),
    lambda xp, x, i, m, t: x[[1, -2, 1]],
    lambda xp, x, i, m, t: m[[0, 3]],
    lambda xp, x, i, m, t: m[:, [1, 1, 2]],
    lambda xp, x, i, m, t: m[2:5, [1, 2]],
    lambda xp, x, i, m, t: m[[1, 2], [3, 4]],
    lambda xp, x, i, m, t: m[[[1], [2]], [3, 4]],
    lambda xp, x, i, m, t: t[[1, 2], 1:3],
    lambda xp, x, i, m, t: xp.sqrt(xp.absolute(i)),
    lambda xp, x, i, m, t: i / 3,
    lambda xp, x, i, m, t: i / x[:200],
    lambda xp, x, i, m, t: xp.copysign(i, 2.5),
    lambda xp, x, i, m, t: xp.lcm(i, i[::-1]),
]
AT_THE_CALL: list[Program] = [
    *IN_NATIVE_CODE,
    lambda xp, x, i, m, t: xp.asarray([x, x]),
    lambda xp, x, i, m, t: xp.asarray([m, m], dtype=np.float32),
    lambda xp, x, i, m, t: xp.ascontiguousarray(t),
    lambda xp, x, i, m, t: xp.nan_to_num(x / i.astype(float) * 0, nan=2.0),
    lambda xp, x, i, m, t: xp.zeros_like(t),
    lambda xp, x, i, m, t: xp.ones_like(m),
    lambda xp, x, i, m, t: xp.full_like(m, 2),
    lambda xp, x, i, m, t: xp.nonzero(t),
    lambda xp, x, i, m, t: [xp.isfortran(t), xp.size(m), xp.size(m, 1), xp.iscomplexobj(i), xp.iterable(x)],
    *(
        lambda xp, x, i, m, t, mode=mode: xp.pad(m, ((1, 2), (0, 3)), mode)
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "mean", "linear_ramp")
    ),
    lambda xp, x, i, m, t: xp.pad(i, 3, constant_values=7),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("program", AT_THE_CALL)
def test_nothing_is_recorded(program: Program) -> None:
    _check(program)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("program", IN_NATIVE_CODE)
def test_native_code_executes_them(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate.install_native_code()
    program(wf, *_arrays(wf.asarray))  # (the first call compiles loops)
    for python in ("call_small", "attempt"):
        monkeypatch.setattr(at_call, python, None)
    _check(program)


WRITES: list[Program] = [
    lambda xp, x, i, m, t: x.sort(),
    lambda xp, x, i, m, t: m.sort(axis=0, kind="stable"),
    lambda xp, x, i, m, t: i.partition(7),
    lambda xp, x, i, m, t: x.__setitem__([1, 2], 5),
    lambda xp, x, i, m, t: m.__setitem__((slice(None), [0, 2]), 5),
    lambda xp, x, i, m, t: m.__setitem__((slice(1, 4), [0, 2]), m[:3, :2].copy()),
]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("program", WRITES)
def test_writes_are_executed(program: Program, native: bool) -> None:
    if native:
        native_immediate.install_native_code()

    def writes(xp: Any, *arrays: Any) -> list[Any]:
        program(xp, *arrays)
        return list(arrays)

    _check(writes)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("key", [[1, 300], [[1, 2], [3]], [1.5], [None], [True, 3]])
def test_lists_that_are_no_index(key: list[Any], native: bool) -> None:
    if native:
        native_immediate.install_native_code()
    own, theirs = wf.asarray(LARGE)[4], LARGE[4]
    for array in (own, theirs):
        array.sum()
    try:
        wanted: Any = theirs[key]
    except Exception as error:
        with pytest.raises(type(error)):
            own[key]
    else:
        assert same(own[key], wanted)


@pytest.mark.parametrize("code", "bhilBHIL")
def test_integers_have_the_bits_of_recorded_operations(code: str) -> None:
    bounds, source = np.iinfo(code), np.random.default_rng(3)
    x = source.integers(bounds.min, bounds.max, 300, code, endpoint=True)
    y = source.integers(-1 if code.islower() else 0, 5, 300).astype(code)
    programs: list[Callable[[Any, Any], Any]] = [
        lambda x, y: wf.divide(x, y),
        lambda x, y: wf.divide(x, 3),
        lambda x, y: wf.sqrt(x),
        lambda x, y: wf.exp(y),
        lambda x, y: wf.copysign(x, y),
        lambda x, y: wf.copysign(x, 0.5),
        lambda x, y: wf.lcm(x, y),
        lambda x, y: wf.lcm(x, x[::-1]),
    ]
    with np.errstate(all="ignore"):
        for _ in range(2):
            for program in programs:
                found = program(wf.asarray(x), wf.asarray(y))
                with override(immediate=0):
                    recorded = program(wf.asarray(x), wf.asarray(y))
                assert same(found, recorded)
            native_immediate.install_native_code()


SCRIPTS: list[Program] = [
    lambda xp, x, i, m, t: xp.r_[0.5, x, 1],
    lambda xp, x, i, m, t: xp.c_[x, x],
    lambda xp, x, i, m, t: xp.asanyarray([x, x]),
    lambda xp, x, i, m, t: xp.random.default_rng(3).permutation(x),
    lambda xp, x, i, m, t: xp.random.default_rng(3).choice(x, 5),
]


@pytest.mark.parametrize("program", SCRIPTS)
def test_scripts_record_nothing(program: Program) -> None:
    _check(program, script_namespace.script_module("numpy"))
