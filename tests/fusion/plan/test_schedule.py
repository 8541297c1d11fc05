"""Tests of the order of tasks.

Each value is read or copied before it is overwritten, and copied only if necessary.
"""

from __future__ import annotations

import itertools
import random

import pytest

from weft.fusion.plan.schedule import _sequence


def check_order(needs: list[set[int]], readers: dict[int, set[int]], found: list[tuple[int, bool]]) -> None:
    position = {k: at for at, (k, _) in enumerate(found)}
    assert sorted(position) == list(range(len(needs)))
    for k, copies in found:
        assert all(position[other] < position[k] for other in needs[k])
        late = [other for other in readers.get(k, ()) if position[other] > position[k]]
        assert copies == bool(late)


@pytest.mark.parametrize(
    ("needs", "readers", "order"),
    [
        ([set(), set(), {1}], {0: {2}, 1: {2}}, [(1, True), (2, False), (0, False)]),
        ([set(), set(), {0}], {0: {1}, 1: {2}}, [(0, True), (2, False), (1, False)]),
        ([set(), {0}], {0: {1}}, [(0, True), (1, False)]),
        ([set(), {0}, {0}], {1: {2}}, [(0, False), (2, False), (1, False)]),
    ],
)
def test_only_a_task_on_a_cycle_copies(
    needs: list[set[int]], readers: dict[int, set[int]], order: list[tuple[int, bool]]
) -> None:
    assert list(_sequence(needs, readers)) == order


@pytest.mark.parametrize("seed", range(40))
def test_a_copy_is_made_only_if_every_order_needs_one(seed: int) -> None:
    source = random.Random(seed)
    count = 6
    needs = [{j for j in range(k) if source.random() < 0.25} for k in range(count)]
    readers = {
        k: found for k in range(count) if (found := {j for j in range(count) if j != k and source.random() < 0.15})
    }
    found = list(_sequence(needs, readers))
    check_order(needs, readers, found)
    free = any(
        all(at[j] < at[k] for k in range(count) for j in needs[k] | readers.get(k, set()))
        for at in itertools.permutations(range(count))
    )
    assert free == (not any(copies for _, copies in found))
