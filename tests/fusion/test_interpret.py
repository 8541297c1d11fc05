"""Tests that interpreted programs produce the same bits as compiled plans."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import weft as wf
from tests.fusion.run.test_primitives import same_bits
from tests.fuzz import graphs, layouts, programs, rows
from weft.fusion.run import reduce_arrays, tiers, verification
from weft.fusion.run.interpret import maps, reductions
from weft.runtime import override

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _compared() -> Any:
    before = verification.VerificationCounts.compared
    with override(verify=True):
        yield
    assert verification.VerificationCounts.compared > before


@pytest.mark.parametrize("seed", [5000, 5010, *(pytest.param(k, marks=pytest.mark.slow) for k in (5020, 5030))])
@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_random_programs(seed: int, device: str) -> None:
    for k in range(seed, seed + (10 if device == "cpu" else 3)):
        assert programs.check(k, device) == ""


def test_random_large_programs() -> None:
    for k in range(5100, 5105):
        assert programs.check(k, "cpu", large=True) == ""


def test_random_mixtures_and_layouts() -> None:
    for k in range(5):
        assert graphs.check(k, ("cpu",)) == ""
        assert layouts.check(k, ("cpu",)) == ""
        assert rows.check(k, ("cpu",), most=3000) == ""


def values(*shape: int, dtype: Any = float) -> Any:
    return wf.asarray(np.random.default_rng(0).standard_normal(shape).astype(dtype))


@pytest.mark.parametrize("block", [100, 1000, maps.BLOCK])
def test_chains_over_blocks(block: int) -> None:
    with mock.patch.object(maps, "BLOCK", block), override(threads=3):
        x, y = values(40, 33), values(33, dtype=np.float32)
        wf.evaluate(wf.exp(x.T)[:, ::2] * 2 + wf.maximum(x.T[:, ::2], 0) / (1 + y[:, None] ** 2))
        wf.evaluate((x * y - x.mean(axis=1, keepdims=True)).astype(np.int32) // 3 + (x > y))
        wf.evaluate(wf.where(x > 0, x + 1j, 2) * x.conj())


def test_sums_of_what_lies_otherwise() -> None:
    x, y, v = values(70, 130), values(130, 70), values(70)
    wf.evaluate((x + y.T).sum(), (x * v[:, None]).sum(axis=0), (x * v[:, None]).sum(), (y.T * 2).sum(axis=1))
    wf.evaluate((x[::2, ::-1] * 3).sum(axis=1), (x[:, None, :] * y.T[:, :, None]).sum(axis=(0, 2)))
    wf.evaluate(x.var(axis=1), x.std(), wf.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1))


@pytest.mark.parametrize("seed", range(4))
def test_sums_over_what_is_put_together_of_parts(seed: int) -> None:
    x = wf.asarray(np.random.default_rng(seed).standard_normal((33, 5)).astype(np.float32))
    joined = wf.concatenate([x, x[:1]])
    squares = (joined * joined).mean(None, keepdims=True)
    joined -= squares
    wf.evaluate(squares, joined)


def test_an_order_is_found_once_for_the_windows_of_a_loop() -> None:
    x, w = values(4, 20, 21, 3), values(5, 4, 3, 6)
    found: list[bool] = []

    def checked(key: Any, find: Callable[[], Any]) -> Any:
        known = key in reduce_arrays._trees
        tree = reduce_arrays.memoized_tree(key, find)
        assert tree == find()
        found.append(known)
        return tree

    with (
        mock.patch.object(reductions, "memoized_tree", checked),
        mock.patch.object(reduce_arrays, "_trees", OrderedDict()),
    ):
        with override(interpret="always", verify=False):
            out, padded = wf.zeros((4, 16, 18, 6)), wf.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
            for i in range(16):
                for j in range(18):
                    out[:, i, j] = (x[:, i : i + 5, j : j + 4, :, None] * w[None]).sum(axis=(1, 2, 3))
            windows = [padded[:, i : i + 5, i : i + 4, :, None] * w[None] for i in range(17)]
            wf.evaluate(out, *[window.sum(axis=(1, 2, 3)) for window in windows])
        first = found.count(False)
        assert 0 < first < 12 and len(found) > 250
        two = [(x[:, i : i + 5, 4:8, :, None] * w[None]).sum(axis=(1, 2, 3)) for i in (2, 3)]
        wf.evaluate(*two)  # one kernel, in which each result has the same bits as alone
        for seed in range(5200, 5210):
            assert programs.check(seed, "cpu") == ""


def test_memory_is_overwritten_only_where_nothing_else_needs_it() -> None:
    x = values(1000)
    view, copy = x[::2], x.copy()
    x[1:] += x[:-1]
    x[::3] = view[0] * 2
    wf.evaluate(x)
    assert same_bits(view, x[::2]) and not same_bits(copy, x)


def interpreted(compute: Any) -> None:
    """Run a computation in interpreted mode. Fail if it makes a plan."""
    with (
        override(verify=False, interpret="always"),
        mock.patch("weft.fusion.run.planning.make_plan", side_effect=AssertionError),
    ):
        compute()


def test_an_update_takes_the_memory_of_what_nobody_shows() -> None:
    wf.evaluate(values(3) + 1)

    def compute() -> None:
        x = values(50_000)
        wf.evaluate(x)
        before = np.asarray(x).__array_interface__["data"][0]
        gc.collect()
        x[10:] = 1
        x[:5] = 2
        wf.evaluate(x)
        assert np.asarray(x).__array_interface__["data"][0] == before
        old = x.numpy()  # another reference to the memory
        x[:5] = 7
        wf.evaluate(x)
        assert old[0] != 7 and x[0] == 7
        y = x + 1  # reads the old values later
        x[:5] = 8
        wf.evaluate(x)
        assert y[0] == 8 and x[0] == 8

    interpreted(compute)


def test_results_of_one_evaluation_have_memory_of_their_own() -> None:
    def compute() -> None:
        x = wf.exp(values(30, 40))
        y, z = x.reshape(40, 30).copy(), x.T.copy()
        wf.evaluate(x, y, z)
        y[0] = 5
        assert (np.asarray(x)[0] != 5).all() and (np.asarray(z)[:, 0] != 5).all()

    wf.evaluate(values(3) + 1)
    interpreted(compute)


def test_an_interrupt_leaves_what_was_pending() -> None:
    wf.evaluate(values(3) + 1)

    def compute() -> None:
        x = values(1000)
        y = wf.exp(x) + 1
        with mock.patch.object(maps, "_run_blocks", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            wf.evaluate(y)
        assert same_bits(y, np.asarray(wf.exp(x)) + 1)

    interpreted(compute)


def test_programs_are_kept_for_a_while() -> None:
    wf.evaluate(values(3) + 1)
    with override(verify=False, interpret="always"):
        for n in range(2, tiers.PROGRAMS_LIMIT + 20):
            wf.evaluate(wf.ones(n) * 2 + wf.arange(n))
    assert len(tiers._programs) <= tiers.PROGRAMS_LIMIT


def test_a_difference_is_reported_with_the_plan(tmp_path: Any) -> None:
    wf.evaluate(values(3) + 1)
    x = values(100)
    real = maps.primitive
    wrong = lambda op, loop, dtype=None: np.add if op == "multiply" else real(op, loop, dtype)  # noqa: E731
    with mock.patch.object(maps, "primitive", wrong), override(dump=str(tmp_path)):
        y = x * 3
        with pytest.raises(wf.VerificationError, match=r"at \(0,\) and at [\d,]+ more places") as caught:
            wf.evaluate(y)
    assert same_bits(y, np.asarray(x) * 3)  # the plan's results are used
    report = str(caught.value).split("the plan is in ")[1].split(",")[0]
    with open(report) as file:
        text = file.read()
    assert "map multiply" in text and "kernel" in text and "test_interpret.py" in text
    (saved,) = tmp_path.glob("*.npz")
    assert same_bits(np.load(saved)["slot0"], x)


def _kept_and_averaged(value: wf.Array) -> list[wf.Array]:
    return [value, value.mean()]


def _kept_beside_means(value: wf.Array) -> list[wf.Array]:
    squares = value.T * value.T
    return [value, squares, squares.mean(1, keepdims=True)]


@wf.vectorize
def _branching(x: float) -> float:
    if x > 0.3:
        for _ in range(2):
            x = x * x
        return x
    return 1.0 - x


def _beside_bytes(value: wf.Array, small: wf.Array) -> list[wf.Array]:
    wf.evaluate(value, small)
    return [value.sum(1), value * small]


@pytest.mark.parametrize(
    "program",
    [
        lambda new: _kept_and_averaged(new(33, 13) * new(33, 1)),
        lambda new: _kept_and_averaged(wf.stack([new(33, 1)] * 2)),
        lambda new: _kept_and_averaged(new(33, 13) + wf.roll(new(13), 1)),
        lambda new: [new(40, 8) / new(8, 40).T.std(1, keepdims=True)],
        # the sum reads registers if its kernel reads columns
        lambda new: _kept_beside_means(wf.clip(new(12, 257), -1, 1)),
        # small elements, which masked instructions cannot access individually
        lambda new: _beside_bytes(new(64, 37), (new(37, 64) > 0).T),
        lambda new: _beside_bytes(new(64, 37), (new(64, 74) > 0)[:, ::2]),
        lambda new: _beside_bytes(new(64, 37), (new(64, 37) > 0)[:, ::-1]),
        lambda new: _beside_bytes(new(64, 37), new(37, 64).astype("float16").T),
        # functions that iterate over single elements
        lambda new: (lambda x: [x.sum(1), _branching(x), _branching(x).sum(1)])(new(64, 37)),
    ],
)
def test_sums_have_one_order_whatever_else_the_same_plan_computes(program: Callable[..., Any]) -> None:
    for seed in range(12):
        numbers = np.random.default_rng(seed)
        wf.evaluate(*program(lambda *shape: wf.asarray(numbers.standard_normal(shape))))  # noqa: B023 - called here


def test_sums_of_pairs_ask_no_planner_for_their_order() -> None:
    with (
        mock.patch("weft.fusion.run.interpret.reductions.memoized_tree", side_effect=AssertionError),
        override(interpret="always"),
    ):
        x = values(2, 8, 16)
        for _ in range(3):  # (each iteration reads the previous result in another order)
            pairs = wf.reshape(wf.transpose(x, (1, 0, 2)), (2, 128)) * 0.5
            x = wf.reshape(wf.stack([pairs.sum(axis=0), pairs[::-1].sum(axis=0)]), (2, 8, 16))
        wf.evaluate(x)


def test_what_nobody_writes_does_not_differ() -> None:
    used = wf.full((300, 300), 7.0) + 1  # memory that is reused with other contents
    assert used.sum() == 720_000
    del used
    x, like = wf.empty((300, 300)), wf.empty_like(wf.ones((300, 300)))
    for k in range(1, 40):
        x[:, k] = x[:, k - 1] * 0.0 + k
        like[k] = x[k]
    wf.evaluate(x, like)
    assert np.asarray(x)[5, :40].tolist()[1:] == list(range(1, 40))
