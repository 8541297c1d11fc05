"""Tests of functions with output arguments."""

from __future__ import annotations

from inspect import signature

import numpy as np
import pytest

import weft as wf
from weft.dsl.functions.own_names import OWN_IN
from weft.dsl.immediate.native_immediate import install_native_code
from weft.dsl.immediate.small_work import most_inputs
from weft.runtime import override

CALLS = """
wf.sum(x, 0, out=out)
wf.sum(x, 0, None, out)
x.sum(0, out=out)
wf.cumsum(x[0], out=out)
wf.std(x, axis=0, out=out)
wf.clip(x[0], 0, 2, out=out)
wf.round(x[0], 2, out=out)
wf.matmul(x, x[0], out=out)
wf.take(x[0], wf.arange(n), out=out)
wf.concatenate([x[0, :7], x[1, 7:]], out=out)
wf.median(x, axis=0, out=out)
wf.nanstd(x, axis=0, out=out)
wf.fix(x[0], out=out)
wf.vecdot(x, x, out=out)
""".strip().splitlines()


@pytest.mark.parametrize("n", [20, 150], ids=["small", "large"])
@pytest.mark.parametrize("call", CALLS)
def test_a_numpy_array_as_out_is_itself_the_result(call, n):
    values = np.random.default_rng(3).standard_normal((n, n))
    x, out = wf.asarray(values), np.full(n, np.nan)
    assert eval(call, {"wf": wf, "x": x, "out": out, "n": n}) is out
    expected = eval(call, {"wf": np, "x": values, "out": np.empty(n), "n": n})
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [20, 150], ids=["small", "large"])
def test_a_part_of_the_operand_as_out_is_itself_the_result(n):
    values = np.random.default_rng(3).standard_normal((n, n)) + 0j
    x = wf.asarray(values)
    part = x[:10]
    assert wf.fft.fft(x, n=10, axis=0, out=part) is part
    np.testing.assert_allclose(x[:10], np.fft.fft(values, n=10, axis=0), rtol=1e-12, atol=1e-12)
    assert np.array_equal(x[10:], values[10:])


# Calls with the argument `out` by position, as in NumPy, or with an input that may be overwritten.
BY_POSITION = """
wf.sum(x, 0, None, out)
x.max(0, out)
wf.nanstd(x, 0, None, out)
wf.add.reduce(x, 0, None, out)
wf.add.reduce(x, 0, out=(out,))
wf.multiply.accumulate(x[1], 0, None, out)
wf.trace(x[:, None] * wf.ones((2, 1)), 0, 0, 1, None, out)
wf.take(x[0], [2, 1, 0], None, out)
x[1].clip(0, 4, out)
wf.round(x[1], 1, out)
wf.dot(x[:, 0], x, out)
x[:, 0].dot(x, out)
wf.matmul(x[:, 0], x, out)
wf.concatenate([x[1]], 0, out)
wf.choose([1, 0, 1], [x[0], x[1]], out)
wf.compress([True] * 3, x[1], 0, out)
wf.outer(x[0, 1:2], x[1], out.reshape(1, 3))
wf.quantile(x, 0.5, 0, out)
wf.fix(x[1], out)
wf.fft.irfft(x[1, :2], 3, -1, None, out)
wf.median(out, None, None, True)
wf.median(out, overwrite_input=True)
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore:numpy.fix")
@pytest.mark.parametrize("native", [False, True])
def test_pending_operations_read_an_output_before_it_is_written(native):
    if native:
        install_native_code()
    for call in BY_POSITION:
        given = {
            "wf": wf,
            "x": wf.asarray(np.arange(6.0).reshape(2, 3)),
            "out": wf.asarray(np.array([30.0, 10.0, 20.0])),
        }
        theirs = {"wf": np, "x": np.arange(6.0).reshape(2, 3), "out": np.array([30.0, 10.0, 20.0])}
        with override(immediate=16384):
            pending = wf.ones((20_000, 3)) + given["out"]
            eval(call, given)
            changed = np.array(given["out"]).tolist()
            assert np.array(pending)[-1].tolist() == [31, 11, 21], call
        eval(call, theirs)
        assert "median" in call or changed == theirs["out"].tolist() != [30, 10, 20], call


def test_positions_of_outputs_are_those_of_numpy():
    for own in (OWN_IN["numpy"], OWN_IN["numpy.fft"]):
        for name in own:
            theirs = own.numpys(name)
            if callable(theirs) and not isinstance(theirs, (np.ufunc, type)):
                given = signature(theirs).parameters.values()
                names = [each.name for each in given if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
                assert most_inputs(name) == (names.index("out") if "out" in names else 64), name
