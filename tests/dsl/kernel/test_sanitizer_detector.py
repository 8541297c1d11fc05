"""Tests of the race detector.

The reference is a simple detector with full vector clocks.
"""

from __future__ import annotations

import random

import pytest

from weft.dsl.kernel.language.kernel_errors import SourceLocation
from weft.dsl.kernel.sanitizer.detector import Detector
from weft.dsl.kernel.sanitizer.tracer import Site, SiteKind

LOCATION = SourceLocation("file.py", 1, 0, 1, "x")
ACCESSES = (SiteKind.READ, SiteKind.WRITE, SiteKind.ATOMIC)
SITES = [
    *(Site(kind, LOCATION, "x", "global", 4, 4, valued=kind is SiteKind.WRITE) for kind in ACCESSES),
    Site(SiteKind.BARRIER, LOCATION),
    Site(SiteKind.WARP_BARRIER, LOCATION, numbers=1),
    Site(SiteKind.FENCE, LOCATION),
    Site(SiteKind.GRID, LOCATION),
    Site(SiteKind.BLOCK_FENCE, LOCATION),
    Site(SiteKind.WARP, LOCATION, numbers=1),
    Site(SiteKind.ATOMIC, LOCATION, "x", "global", 4, 4, compares=True),
    Site(SiteKind.WRITE, LOCATION, "x", "global", 1, 1, valued=True),
]
BARRIER, WARP, FENCE, GRID, BLOCK_FENCE, SHUFFLE, SWAP, SMALL_WRITE = range(3, 11)
LANES, ADDRESSES = 2, 5
SIZE = 32 + LANES  # threads of a block: each of the two warps has two active lanes
BUSY = (0, 1, 32, 33)
Event = tuple[int, int, int, int]  # site, block, thread, address (for a warp operation, its mask)


def events(source: random.Random, at_once: bool) -> list[Event]:
    """Return random events of two blocks: accesses, fences, barriers and shuffles.

    If `at_once` is true, the events of the blocks are interleaved. Otherwise, all events of block 0 come first.
    """
    made: list[Event] = []
    turns = [(0, 1)] * 9 if at_once else [(0,)] * 4 + [(1,)] * 4
    for blocks in turns:
        for _ in range(source.choice((0, 0, 1, 1, 2))):
            site = source.choice((0, 0, 0, 1, 2, 2, 2, FENCE, BLOCK_FENCE))
            made.append((site, source.choice(blocks), source.choice(BUSY), source.randrange(ADDRESSES)))
        block = source.choice(blocks)
        match source.randrange(5 if at_once else 4):
            case 0:
                made += [(BARRIER, block, t, 0) for t in source.sample(BUSY, 4)]
            case 1:
                first = source.choice((0, 32))
                made += [(WARP, block, first + t, 0b11) for t in source.sample(range(LANES), LANES)]
            case 2:
                made.append((source.choice((FENCE, BLOCK_FENCE)), block, source.choice(BUSY), 0))
            case 3:
                first = source.choice((0, 32))
                made += [(SHUFFLE, block, first + t, 0b11) for t in source.sample(range(LANES), LANES)]
            case 4:
                made += [(GRID, b, t, 0) for b in blocks for t in BUSY]
    return made


def races(made: list[Event], values: int) -> bool:
    """Return whether any two accesses race, according to vector clocks over all threads.

    Event k writes the value k modulo `values`.
    """
    who = [(b, t) for b in (0, 1) for t in BUSY]
    clocks: dict[tuple[int, int], dict[tuple[int, int], int]] = {a: dict.fromkeys(who, 0) for a in who}
    for a in who:
        clocks[a][a] = 1
    # the clocks that fences have published for all blocks (None) or for one block
    released: dict[tuple[tuple[int, int], int | None], dict[tuple[int, int], int]] = {}
    memory: dict[tuple[int, int | None], dict[tuple[int, int], int]] = {}
    past: list[tuple[int, tuple[int, int], int, int, int]] = []  # site, thread, clock, address, value
    k = 0

    def join(group: list[tuple[int, int]]) -> None:
        whole = {a: max(clocks[one][a] for one in group) for a in who}
        for one in group:
            clocks[one] = {**whole, one: whole[one] + 1}

    while k < len(made):
        site, block, thread, address = made[k]
        me = (block, thread)
        if site in (BARRIER, WARP, GRID):
            count = {BARRIER: 4, WARP: LANES, GRID: 8}[site]
            join([(b, t) for _, b, t, _ in made[k : k + count]])
            k += count
            continue
        k += 1
        if site == SHUFFLE:
            continue
        if site in (FENCE, BLOCK_FENCE):
            released[me, None if site == FENCE else block] = dict(clocks[me])
            clocks[me][me] += 1
            continue
        for scope in (None, block) if site == 2 else ():
            held = memory.setdefault((address, scope), {})
            for a, n in held.items():
                clocks[me][a] = max(clocks[me][a], n)
            for a, n in released.get((me, scope), {}).items():
                held[a] = max(held.get(a, 0), n)
        value = (k - 1) % values
        for old, other, clock, where, before in past:
            quiet = {old, site} in ({0}, {2}) or ({old, site} == {1} and before == value)
            if where == address and other != me and not quiet and clocks[me][other] < clock:
                return True
        past.append((site, me, clocks[me][me], address, value))
    return False


def found_in(made: list[Event], at_once: bool, values: int) -> bool:
    """Return whether the detector finds a race."""
    detector = Detector(SITES, SIZE, at_once=at_once)
    detector.take(
        [[s | t << 32, b, 64 + 4 * p, p if s in (WARP, SHUFFLE) else k % values] for k, (s, b, t, p) in enumerate(made)]
    )
    return any(f.kind == "race" for f in detector.finish())


@pytest.mark.parametrize("at_once", [False, True])
def test_it_finds_what_vector_clocks_find(at_once: bool) -> None:
    source = random.Random(7)
    seen = {False: 0, True: 0}
    for _ in range(3000):
        made = events(source, at_once)
        found = found_in(made, at_once, 1 << 20)
        assert found == races(made, 1 << 20), made
        seen[found] += 1
    assert min(seen.values()) > 300


@pytest.mark.parametrize("at_once", [False, True])
def test_writes_of_the_same_value(at_once: bool) -> None:
    """Test that the detector reports no false race if several threads write the same value.

    The detector may miss a race with an access before two writes of the same value.
    """
    source = random.Random(8)
    missed = 0
    for _ in range(3000):
        made = events(source, at_once)
        found, right = found_in(made, at_once, 2), races(made, 2)
        assert right or not found, made
        missed += right != found
    assert missed < 60


def reported(rows: list[list[int]], size: int = SIZE) -> bool:
    """Return whether the detector finds a race among events of one block.

    Each row is a site, a thread, an address and a value.
    """
    detector = Detector(SITES, size)
    detector.take([[site | thread << 32, 0, address, value] for site, thread, address, value in rows])
    return any(finding.kind == "race" for finding in detector.finish())


def test_a_read_after_many_reads() -> None:
    reads = [[0, thread, 64, 0] for thread in range(64)]
    barrier = [[BARRIER, thread, 0, 0] for thread in range(128)]
    write = [[1, 0, 64, 5]]
    assert not reported([*reads, *barrier, *write], 128)
    assert reported([*reads, *barrier, [0, 100, 64, 0], *write], 128)


def test_compare_and_swap_after_a_read() -> None:
    read, other, swap = [0, 0, 64, 0], [SWAP, 1, 64, 0], [SWAP, 0, 64, 0]
    assert not reported([read, other, swap])
    assert not reported([read, [0, 1, 64, 0], swap, other])
    assert reported([read, other])
    assert reported([read, [0, 2, 64, 0], other, swap])


def test_equal_values_of_different_sizes() -> None:
    assert reported([[1, 0, 64, 1], [SMALL_WRITE, 1, 65, 1]])
    assert not reported([[SMALL_WRITE, 0, 65, 1], [SMALL_WRITE, 1, 65, 1]])
