"""Detection of races and other errors in the events of a kernel launch.

In: events in order, and the sites that they name. Out: findings. Two accesses of different threads to the same bytes
race if one of them writes, not both are atomic, not both write the same value (then the order does not matter), and
nothing orders them:

- a barrier orders all threads of a block, a grid barrier all threads;
- a warp barrier (`syncwarp`) orders the lanes that take part, but other warp operations order nothing;
- an atomic publishes everything that its thread did or knew before its last fence: these operations precede the later
  operations of a thread that reads the atomic's result with another atomic on the same element. A fence for the block
  publishes to threads of the same block only.

A load is also treated as atomic if the thread's next operation on the element is a compare-and-swap, which detects a
change.

Invariant: an access that is ordered after all other accesses to its bytes replaces them in the record. Reads of
memory that no thread has written yet are reported at the end (of the block, for shared memory), because a later write
by another thread makes them a race.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.dsl.kernel.sanitizer.tracer import Site, SiteKind

READ, WRITE, ATOMIC = SiteKind.READ, SiteKind.WRITE, SiteKind.ATOMIC
FINDINGS = 100  # maximum number of findings at different sites
KEPT = 64  # maximum number of threads remembered per location since its last write

Row = Sequence[int]
# A vector clock: thread or block -> the time up to which its operations are known.
Known = dict[Any, int]
# What fences have published: to all threads (None), and to the threads of a block.
Released = dict["BlockState | None", Known]


@dataclass(slots=True)
class Unwritten:
    """Device memory that was uninitialized before a launch, with a mark for each unwritten byte."""

    start: int
    stop: int
    fresh: bytearray


FindingKind = Literal["out of bounds", "uninitialized", "misaligned", "race", "divergent barrier"]


@dataclass(frozen=True, slots=True)
class Finding:
    """An error that the detector has found.

    For a race, `other` contains the site, the block and the thread of the other access. If threads wait at different
    barriers, `other` describes the first arrival.
    """

    kind: FindingKind
    site: Site
    block: int
    thread: int
    index: tuple[int, ...]
    other: tuple[Site, int, int] | None


class ThreadState:
    """The state of a thread in the race detector: barrier counts and a vector clock.

    `now` is the timestamp in the record of an access: the thread, the numbers of block barriers and grid barriers that
    it has passed, and its clock.
    """

    __slots__ = ("block", "clock", "epoch", "grid", "group", "known", "now", "number", "released", "seen", "written")

    def __init__(self, block: BlockState, number: int) -> None:
        self.block = block
        self.number = number
        self.epoch = self.grid = self.clock = 0
        self.known: Known | None = None
        self.released: Released = {}
        self.group: tuple[Any, list[ThreadState]] | None = None
        self.written: set[int] = set()  # addresses of the thread's local memory that have been initialized
        self.move_on()

    def move_on(self) -> None:
        """Start a new interval of the thread's logical time, after a synchronization or a fence."""
        self.now = (self, self.epoch, self.grid, self.clock)
        self.seen: dict[Site, Access] = {}

    def forget(self) -> None:
        """Clear the state of a thread that has ended, to break reference cycles."""
        self.seen.clear()
        self.group = self.known = None
        self.released = {}
        del self.now


Now = tuple[ThreadState, int, int, int]
Access = tuple[Now, Site, "int | None"]  # the last item is the written value, if known


class Cell:
    """The recorded accesses to one address, used if a record of a single access is not enough to detect races."""

    __slots__ = ("atomics", "reads", "released", "writes")

    def __init__(self) -> None:
        self.writes: dict[ThreadState, Access] = {}  # the last write, and others of the same value
        self.reads: dict[ThreadState, Access] = {}
        self.atomics: dict[ThreadState, Access] = {}
        self.released: Released = {}  # published by fences before atomics on these bytes

    def add(self, access: Access) -> None:
        """Record an access that has been checked for races, unless too many are recorded."""
        thread, kind = access[0][0], access[1].kind
        kept = self.reads if kind is READ else self.atomics
        if kind is WRITE:
            kept = self.writes
            for one in [one for one, earlier in kept.items() if ordered(earlier[0], thread)]:
                del kept[one]
            self.reads.clear()
            self.atomics.clear()
        kept.pop(thread, None)
        while len(kept) >= KEPT and ordered(kept[oldest := next(iter(kept))][0], thread):
            del kept[oldest]
        if len(kept) < KEPT:
            kept[thread] = access

    def unordered_reads(self, thread: ThreadState) -> list[Access]:
        """Return the recorded reads that are not ordered before the next operation of `thread`."""
        return [access for access in self.reads.values() if not ordered(access[0], thread)]

    def conflict(self, new: Access) -> Access | None:
        """Return an earlier access that races with `new`, or None if there is no race.

        If `new` is an atomic, recorded reads do not count as races, because the reader may follow with a
        compare-and-swap.
        """
        thread, kind, size, value = new[0][0], new[1].kind, new[1].size, new[2]
        for access in self.writes.values():
            same = kind is WRITE and value is not None and access[2] == value and access[1].size == size
            if not same and not ordered(access[0], thread):
                return access
        others = self.unordered_reads(thread) if kind is WRITE else []
        if kind is not ATOMIC:
            others += [access for access in self.atomics.values() if not ordered(access[0], thread)]
        return others[0] if others else None


Memory = dict[int, "Access | Cell"]


@dataclass(slots=True, eq=False, repr=False)
class BlockState:
    """The state of a block in the race detector."""

    number: int
    threads: list[ThreadState | None]
    shared: Memory = field(default_factory=dict)
    # reads of elements that are not yet written
    fresh: dict[int, tuple[Site, ThreadState, Row]] = field(default_factory=dict)
    # reads of threads of the block that race with an atomic, unless the reader follows with a compare-and-swap
    guesses: dict[tuple[int, ThreadState], tuple[Site, ThreadState, Row, Access]] = field(default_factory=dict)
    barriers: list[tuple[Site, ThreadState]] = field(default_factory=list)  # the first arrival at each barrier
    arrived: list[int] = field(default_factory=list)
    groups: dict[Any, list[ThreadState]] = field(default_factory=dict)
    stopped: bool = False  # whether a finding has ended a thread


def ordered(before: Now, thread: ThreadState) -> bool:
    """Return whether an earlier access is ordered before the next operation of `thread`, so that they cannot race."""
    other, epoch, grid, clock = before
    if other is thread or grid < thread.grid:
        return True
    known = thread.known
    if other.block is thread.block and epoch < thread.epoch:
        return True
    return known is not None and (known.get(other, -1) >= clock or known.get(other.block, -1) > epoch)


def join_clocks(parts: Sequence[Known | None]) -> Known | None:
    """Merge vector clocks: for each thread or block, keep the latest time. The value None stands for an empty clock."""
    different = list({id(known): known for known in parts if known is not None}.values())
    if len(different) <= 1:
        return different[0] if different else None
    largest = max(different, key=len)
    merged = dict(largest)
    for known in different:
        for key, value in known.items():
            if merged.get(key, -1) < value:
                merged[key] = value
    return merged


class Detector:
    """Detector of races and other errors in one kernel launch.

    `size` is the number of threads of a block. Device memory in `unwritten` is uninitialized at first, and writes clear
    its marks. `at_once` states whether the events of blocks interleave, as in cooperative launches. Otherwise, blocks
    run one after another.
    """

    def __init__(
        self, sites: Sequence[Site], size: int, unwritten: Sequence[Unwritten] = (), at_once: bool = False
    ) -> None:
        self.sites = sites
        self.size = size
        self.unwritten = unwritten
        self.at_once = at_once
        self.findings: list[Finding] = []
        self.counts: Counter[tuple[Any, ...]] = Counter()
        self.memory: Memory = {}
        self.fresh: dict[int, tuple[Site, ThreadState, Row]] = {}
        self.blocks: dict[int, BlockState] = {}
        self.block = BlockState(-1, [])
        self.meeting: list[ThreadState] = []  # threads that wait at a grid barrier
        units = [s.size & -s.size for s in sites if s.kind <= ATOMIC] + [s.align for s in sites if s.kind <= ATOMIC]
        self.unit = min(units, default=1)

    def take(self, rows: Sequence[Row]) -> None:
        """Analyze a sequence of events."""
        sites, unit, block = self.sites, self.unit, self.block
        threads = block.threads
        for row in rows:
            if row[1] != block.number:
                block = self.enter(row[1])
                threads = block.threads
            number = row[0] >> 32
            thread = threads[number]
            if thread is None:
                thread = threads[number] = ThreadState(block, number)
            elif thread.group is not None:
                self.part(thread)
            site = sites[row[0] & 0xFFFFFFFF]
            if site.kind > ATOMIC:
                self.event(thread, site, row)
                continue
            start = row[2]
            if start % site.align:
                self.report("misaligned", site, thread, row)
                block.stopped = True
                continue
            access = thread.seen.get(site)
            value = row[3 + site.numbers] if site.valued else None
            if access is None or access[2] != value:
                access = thread.seen[site] = thread.now, site, value
            if site.space == "global":
                if self.unwritten:
                    self.use_global(thread, site, row)
                memory = self.memory
            elif site.space == "shared":
                memory = block.shared
            else:
                self.use_local(thread, site, row)
                continue
            for address in (start,) if site.size == unit else range(start, start + site.size, unit):
                held = memory.get(address)
                if held is None and site.kind is not ATOMIC:
                    memory[address] = access
                    if site.kind is READ and memory is block.shared:
                        block.fresh[address] = site, thread, row
                elif held is not access:
                    self.analyse_repeated(memory, address, held, access, row)

    def enter(self, number: int) -> BlockState:
        """Select the block with the number `number` as the current block, and return its state."""
        if not self.at_once:
            self.leave()
            self.blocks.clear()
        if number not in self.blocks:
            self.blocks[number] = BlockState(number, [None] * self.size)
        self.block = self.blocks[number]
        return self.block

    def finish(self, stuck: bool = False) -> list[Finding]:
        """End the analysis, and return the recorded findings.

        Divergent barriers come first, because they cause races.

        `stuck` is true if the launch ended in a deadlock.
        """
        for block in self.blocks.values():
            self.block = block
            if stuck:
                self.report_stuck()
            self.leave()
        self.report_uninitialized(self.fresh)
        return sorted(self.findings, key=lambda finding: finding.kind != "divergent barrier")

    # -- accesses ---------------------------------------------------------------------------------

    def analyse_repeated(
        self, memory: Memory, address: int, held: Access | Cell | None, access: Access, row: Row
    ) -> None:
        """Analyze an atomic operation, or an access to an address that was accessed before."""
        now, site, _ = access
        thread = now[0]
        if isinstance(held, tuple):
            before, first, _ = held
            if before[0] is thread and site.kind is not ATOMIC and first.kind is not ATOMIC:
                if site.kind is WRITE or first.kind is READ:
                    memory[address] = access
                    return
                if before is now:
                    return  # an access that races with this read also races with the recorded write
            cell = memory[address] = Cell()
            cell.add(held)
        elif held is None:
            cell = memory[address] = Cell()
            if memory is not self.memory:
                self.block.fresh[address] = site, thread, row
        else:
            cell = held
        if site.kind is ATOMIC:
            if site.compares:
                cell.reads.pop(thread, None)
                thread.block.guesses.pop((address, thread), None)
            for scope in (None, thread.block):
                held_by_cell = cell.released.get(scope)
                thread.known = join_clocks((thread.known, held_by_cell))
                if scope in thread.released:
                    cell.released[scope] = join_clocks((held_by_cell, thread.released[scope])) or {}
        other = cell.conflict(access)
        for read in cell.unordered_reads(thread) if site.kind is ATOMIC else ():
            reader = read[0][0]
            if reader.block.threads:
                reader.block.guesses.setdefault((address, reader), (site, thread, row, read))
            else:  # the reader has ended
                other = other or read
        if other is not None and site.kind is READ and other[1].kind is ATOMIC:
            thread.block.guesses.setdefault((address, thread), (site, thread, row, other))
        elif other is not None:
            self.report("race", site, thread, row, other)
            (self.fresh if memory is self.memory else self.block.fresh).pop(address, None)
            cell.writes.clear()
            cell.reads.clear()
            cell.atomics.clear()
        cell.add(access)

    def use_local(self, thread: ThreadState, site: Site, row: Row) -> None:
        """Analyze an access to thread-local memory."""
        addresses = range(row[2], row[2] + site.size, self.unit)
        if site.kind is not WRITE and not thread.written.issuperset(addresses):
            self.report("uninitialized", site, thread, row)
        thread.written.update(addresses)

    def use_global(self, thread: ThreadState, site: Site, row: Row) -> None:
        """Analyze an access to device memory, which may be uninitialized."""
        address = row[2]
        for region in self.unwritten:
            if region.start <= address < region.stop:
                first = address - region.start
                if site.kind is not WRITE and region.fresh.find(1, first, first + site.size) >= 0:
                    self.fresh.setdefault(address, (site, thread, row))
                if site.kind is not READ:
                    region.fresh[first : first + site.size] = bytes(site.size)
                return

    # -- synchronization --------------------------------------------------------------------------

    def event(self, thread: ThreadState, site: Site, row: Row) -> None:
        """Analyze an event other than a memory access, such as a barrier or a fence."""
        block = thread.block
        match site.kind:
            case SiteKind.OUTSIDE:
                self.report("out of bounds", site, thread, row)
                block.stopped = True
            case SiteKind.FENCE | SiteKind.BLOCK_FENCE:
                published = {**(thread.known or {}), thread: thread.clock, block: thread.epoch}
                if site.kind is SiteKind.FENCE:
                    thread.released = {None: published}
                else:
                    thread.released = {**thread.released, block: published}
                thread.clock += 1
                thread.move_on()
            case SiteKind.BARRIER | SiteKind.GRID:
                self.arrive(thread, site, row)
                thread.epoch += 1
                if site.kind is SiteKind.GRID:
                    self.meeting.append(thread)
                    thread.group = SiteKind.GRID, self.meeting
                else:
                    self.join(thread, SiteKind.BARRIER)
            case _:
                mask = row[3] & 0xFFFFFFFF if site.numbers else 0xFFFFFFFF
                self.join(thread, (site, mask, thread.number // 32))

    def join(self, thread: ThreadState, key: object) -> None:
        """Add a thread to the group that waits at a synchronization point."""
        group = thread.block.groups.setdefault(key, [])
        group.append(thread)
        thread.group = key, group

    def part(self, thread: ThreadState) -> None:
        """Release `thread`, and the threads that wait with it, from a synchronization point.

        The threads then share one vector clock, unless the synchronization point orders no memory accesses.
        """
        assert thread.group is not None
        key, group = thread.group
        if isinstance(key, tuple) and key[0].kind is SiteKind.WARP:
            del thread.block.groups[key]
            for one in group:
                one.group = None
            return
        known = join_clocks([one.known for one in group])
        if key is SiteKind.GRID:
            self.meeting = []
            known = None  # all earlier operations are ordered before the barrier
        else:
            del thread.block.groups[key]
        if key is SiteKind.BARRIER and known is not None:
            own = thread.block
            known = {k: v for k, v in known.items() if (k if isinstance(k, BlockState) else k.block) is not own} or None
        if isinstance(key, tuple):
            known = {**(known or {}), **{one: one.clock for one in group}}
        for one in group:
            one.group = None
            one.known = known
            one.clock += 1
            if key is SiteKind.GRID:
                one.grid += 1
            one.move_on()

    def arrive(self, thread: ThreadState, site: Site, row: Row) -> None:
        """Analyze a thread's arrival at a barrier. All threads of a block must arrive at the same barrier."""
        block, turn = thread.block, thread.epoch
        if turn == len(block.barriers):
            block.barriers.append((site, thread))
            block.arrived.append(0)
        block.arrived[turn] += 1
        first, other = block.barriers[turn]
        if first is not site and not block.stopped:
            block.stopped = True
            self.report("divergent barrier", site, thread, row, (other.now, first, None))

    def leave(self) -> None:
        """Report the errors known only at the end of the current block, and discard its threads."""
        block = self.block
        for (site, thread), arrived in zip(block.barriers, block.arrived, strict=True):
            if arrived < self.size and not block.stopped:
                block.stopped = True
                self.report("divergent barrier", site, thread, ())
        for guess in block.guesses.values():
            self.report("race", *guess)
        self.report_uninitialized(block.fresh)
        for one in block.threads:
            if one is not None:
                one.forget()
        block.threads = []

    def report_stuck(self) -> None:
        """Report a group of threads that wait forever for other threads of their warp."""
        for key, group in self.block.groups.items():
            if isinstance(key, tuple) and not self.block.stopped:
                self.block.stopped = True
                self.report("divergent barrier", key[0], group[0], ())

    # -- findings ---------------------------------------------------------------------------------

    def report_uninitialized(self, fresh: dict[int, tuple[Site, ThreadState, Row]]) -> None:
        """Report the reads of uninitialized memory that are recorded in `fresh`."""
        for site, thread, row in fresh.values():
            self.report("uninitialized", site, thread, row)
        fresh.clear()

    def report(self, kind: FindingKind, site: Site, thread: ThreadState, row: Row, other: Access | None = None) -> None:
        """Count an error.

        Record its details only for the first error of this kind at this operation or pair of operations.

        No more than `FINDINGS` errors are recorded.
        """
        key = kind, site, other and other[1]
        self.counts[key] += 1
        if self.counts[key] > 1 or len(self.findings) >= FINDINGS:
            return
        index = tuple(row[3 : 3 + site.numbers]) if site.kind <= SiteKind.OUTSIDE else ()
        second = None
        if other is not None:
            (party, *_), other_site, _ = other
            second = other_site, party.block.number, party.number
        self.findings.append(Finding(kind, site, thread.block.number, thread.number, index, second))
