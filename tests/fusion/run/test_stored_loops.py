"""Tests of the disk cache for reductions. The cache stores compiled loops, and trees that describe in which order elements are combined."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import weft as wf
from weft.fusion.graph.reduction_order import LaneLoop, Tree
from weft.fusion.run import reduce_arrays
from weft.fusion.run.interpret import reductions
from weft.fusion.run.stored_loops import find_reduction, obtain_reduction, obtain_tree
from weft.runtime import override

pytestmark = pytest.mark.cpu

KIND = np.dtype(float)
TREE = Tree((4, 300), (0,), (1,), (300,), 0, LaneLoop(0, True), LaneLoop())


def test_trees_are_found_by_key(cold_cache: None) -> None:
    obtain_reduction("add", KIND)  # (it also stores the description of this machine)
    key = ("add", (True, "view", (300,), None), KIND)
    assert obtain_tree(key, lambda: TREE) == TREE
    other = TREE._replace(block_length=7)
    assert obtain_tree(key, lambda: other) == TREE
    assert obtain_tree((*key, -1), lambda: other) == other
    assert isinstance(obtain_tree(key, lambda: other).last, LaneLoop)


def test_trees_of_user_functions_are_not_stored(cold_cache: None) -> None:
    obtain_reduction("add", KIND)

    @wf.vectorize
    def double(x: float) -> float:
        return x * 2

    with override(immediate=0, interpret="always"):
        x = wf.asarray(np.arange(50_000.0))
        total = (double(x[1:]) + x[:-1]).sum()
        (key,) = [reductions._outline(total._storage.expr, set(), set())]
        assert obtain_tree(key, lambda: TREE) == TREE
        assert obtain_tree(key, lambda: TREE._replace(block_length=7)) != TREE


def test_reductions_are_found_by_op_and_dtype(cold_cache: None) -> None:
    assert find_reduction("add", KIND) is None
    made = obtain_reduction("add", KIND)
    found = find_reduction("add", KIND)
    rows = np.random.default_rng(0).random((3, 1001))
    np.testing.assert_array_equal(found(rows), made(rows))
    assert find_reduction("add", KIND, 2) is None and find_reduction("multiply", KIND) is None
    obtain_reduction("add", KIND, 2)
    np.testing.assert_allclose(find_reduction("add", KIND, 2)(rows, rows), (rows * rows).sum(axis=1))


def test_a_stored_reduction_serves_the_first_call(cold_cache: None) -> None:
    obtain_reduction("add", KIND)
    with mock.patch.multiple(reduce_arrays, _loops={}, _counts={}):
        assert isinstance(reduce_arrays._compiled("add", KIND), np.ufunc)
        assert reduce_arrays._compiled("multiply", KIND) is None
