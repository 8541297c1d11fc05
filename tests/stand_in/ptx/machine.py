"""A simulated GPU.

It executes PTX one instruction at a time, for all threads that have reached the instruction.

In: a `Program`, a launch and memory. Out: the changed memory, or a `Fault`. Invariant: each thread follows
its own branches, and warps are not synchronized. A barrier holds threads of a block until enough have arrived, and a
warp instruction holds the lanes of its mask. An access outside a block of memory, or at an address that is not a
multiple of the access size, is a fault. Uninitialized registers, shared memory and local memory contain garbage.
Usually the threads with the least progress run first. Sometimes other threads run first, so that a loop that waits for
another thread can end.
"""

from __future__ import annotations

import bisect
import copy
import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.stand_in.ptx.text import Function, Module
from tests.stand_in.ptx.traffic import Traffic

Lanes = Any  # an array of lane numbers, or slice(None) for all
Step = Callable[["Grid", Lanes], None]

WARP = 32
SHARED_WINDOW, LOCAL_WINDOW, WINDOW = 1 << 56, 1 << 57, 1 << 32
ILLEGAL_ADDRESS, MISALIGNED, LAUNCH_FAILED, ASSERTION = 700, 716, 719, 710
MOST_LANES = 1 << 15  # maximum number of lanes that run concurrently
RUBBISH = 0xA5
CALL_BITS, MOST_CALLS = 24, 60  # address bits of the local memory of a call, and maximum depth of calls
DRIFT = 0.25  # probability that some warps run ahead, which exposes missing synchronization
PATIENCE = 5_000_000  # number of jumps after which a launch is assumed to be endless
REGISTER = {"pred": np.bool_, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64}
REGISTER |= {"u16": np.uint16, "s16": np.uint16, "f16": np.uint16, "u32": np.uint32, "s32": np.uint32}
REGISTER |= {"f32": np.uint32, "u64": np.uint64, "s64": np.uint64, "f64": np.uint64}


class Fault(Exception):
    """Raised if a GPU would stop with an error. `code` is the error code of the driver."""

    def __init__(self, code: int, what: str) -> None:
        super().__init__(what)
        self.code = code


@dataclass(slots=True)
class Program:
    """A PTX function in the form that the simulated GPU executes.

    `steps` are its instructions, and `leaders` are the positions at which threads may reconverge.
    """

    function: Function
    module: Module
    steps: list[Any]
    leaders: frozenset[int]
    shared_bytes: int
    local_bytes: int
    symbols: dict[str, int]  # addresses of variables
    calls: dict[str, Program] = field(default_factory=dict)  # functions that may be called, by name


@dataclass(slots=True)
class Plain:
    """A step that each thread executes independently."""

    run: Step
    guard: str = ""
    negated: bool = False


@dataclass(slots=True)
class Branch:
    """A branch to `target`, taken by the threads for which its guard holds."""

    target: int
    guard: str = ""
    negated: bool = False


@dataclass(slots=True)
class Table:
    """A branch to one of several targets, selected by an index."""

    index: Callable[[Grid, Lanes], Any]
    targets: tuple[int, ...]


@dataclass(slots=True)
class Return:
    """A return from a function, executed by the threads for which its guard holds."""

    guard: str = ""
    negated: bool = False


@dataclass(slots=True)
class Barrier:
    """A barrier for the threads of a block."""

    number: Callable[[Grid, Lanes], Any]
    count: Callable[[Grid, Lanes], Any] | None = None
    fold: Step | None = None


@dataclass(slots=True)
class Together:
    """An operation that the lanes of a warp execute together."""

    mask: Callable[[Grid, Lanes], Any]
    run: Step
    guard: str = ""
    negated: bool = False


class Grid:
    """A batch of thread blocks of one launch. The PTX interpreter executes them at the same time, and keeps their registers and memory here."""

    def __init__(
        self,
        program: Program,
        memory: Any,
        launch: Any,
        blocks: range,
        parameters: bytes,
        turns: np.random.Generator,
        traffic: Traffic | None = None,
    ) -> None:
        self.memory, self.random, self.traffic = memory, turns, traffic
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        padded = -(-threads // WARP) * WARP
        self.threads, self.padded, self.blocks = threads, padded, len(blocks)
        self.lanes = padded * len(blocks)
        self.parameters = np.frombuffer(parameters, np.uint8)
        inside = np.tile(np.arange(padded, dtype=np.int64), len(blocks))
        number = np.repeat(np.arange(blocks.start, blocks.stop, dtype=np.int64), padded)
        self.block_of = np.repeat(np.arange(len(blocks)), padded)
        self.warp_of = np.arange(self.lanes) // WARP
        self.lane_of = (inside % WARP).astype(np.uint32)
        self.alive = inside < threads
        self.special = _special(launch, inside, number)
        self.shared_size = program.shared_bytes + launch.shared_bytes
        self.shared = np.full(max(1, self.blocks * self.shared_size) + 16, RUBBISH, np.uint8)
        self.depth = 0  # depth of the current call
        self.locals: list[np.ndarray] = []  # local memory by depth of calls
        self.carry = np.zeros(self.lanes, np.bool_)
        self.active = np.flatnonzero(self.alive)
        self._enter(program)

    def _enter(self, program: Program) -> None:
        """Create the registers, the local memory and the parameters of a function."""
        self.program = program
        self.regs = {
            name: np.full(self.lanes, 0xA5A5A5A5A5A5A5A5 & np.iinfo(REGISTER[kind]).max, REGISTER[kind])
            if kind != "pred"
            else np.ones(self.lanes, np.bool_)
            for name, kind in program.function.registers.items()
        }
        self.passed: dict[str, np.ndarray] = {}
        self.given: dict[str, np.ndarray] = {}
        self.locals = [*self.locals, np.full(max(1, self.lanes * program.local_bytes) + 16, RUBBISH, np.uint8)]

    def call(self, program: Program, lanes: np.ndarray, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Execute a function to its end for the given lanes.

        Return the function's parameters and results as bytes, by name.
        """
        inner = copy.copy(self)
        inner.depth = self.depth + 1
        if inner.depth > MOST_CALLS:
            raise Fault(LAUNCH_FAILED, "too many calls inside each other")
        inner._enter(program)
        inner.given, inner.active = given, lanes
        Run(inner).to_end()
        return inner.given

    # -- memory -----------------------------------------------------------------------------------------

    def load(self, space: str, at: Any, lanes: np.ndarray, dtype: Any, count: int) -> list[np.ndarray]:
        """Read `count` consecutive values for each lane."""
        dtype = np.dtype(dtype)
        found = [np.zeros(len(lanes), dtype) for _ in range(count)]
        for chosen, view, index in self._split_access(space, at, lanes, dtype, count, False):
            for k in range(count):
                found[k][chosen] = view[index + k]
        return found

    def store(self, space: str, at: Any, lanes: np.ndarray, values: list[Any]) -> None:
        """Write consecutive values for each lane."""
        dtype = values[0].dtype
        for chosen, view, index in self._split_access(space, at, lanes, dtype, len(values), True):
            for k, value in enumerate(values):
                view[index + k] = value[chosen] if value.ndim else value

    def _split_access(self, space: str, at: Any, lanes: np.ndarray, dtype: np.dtype, count: int, writes: bool) -> Any:
        """Split an access by memory blocks.

        For each part, yield the lanes, the block as an array, and the indices. Raise Fault for an invalid access.
        """
        at = np.broadcast_to(np.asarray(at).astype(np.uint64), (len(lanes),))
        if not len(lanes):
            return
        size = dtype.itemsize * count
        if (at % np.uint64(size)).any():
            bad = int(at[at % np.uint64(size) != 0][0])
            raise Fault(MISALIGNED, f"{size} bytes at {bad:#x} of {space or 'generic'} memory")
        if self.traffic is not None:
            self.traffic.note(space, at, self.warp_of[lanes], self.lane_of[lanes], size, writes)
        if space == "":
            windows = at >> np.uint64(56)
            for window in np.unique(windows):
                chosen = np.flatnonzero(windows == window)
                name, base = {1: ("shared", SHARED_WINDOW), 2: ("local", LOCAL_WINDOW)}.get(int(window), ("global", 0))
                for part, view, index in self._split_access(
                    name, at[chosen] - np.uint64(base), lanes[chosen], dtype, count, writes
                ):
                    yield chosen[part], view, index
        elif space in ("shared", "local"):
            memory, length = self.shared, self.shared_size
            if space == "local":
                depth = int(at[0]) >> CALL_BITS
                if depth >= len(self.locals) or (at >> np.uint64(CALL_BITS) != depth).any():
                    raise Fault(ILLEGAL_ADDRESS, f"{int(at.max()):#x} of local memory")
                at = at - np.uint64(depth << CALL_BITS)
                memory = self.locals[depth]
                length = (len(memory) - 16) // self.lanes
            if (at.astype(np.int64) + size > length).any():
                raise Fault(ILLEGAL_ADDRESS, f"{int(at.max()):#x} of {length} bytes of {space} memory")
            whose = self.block_of[lanes] if space == "shared" else lanes
            # if the memory of each block starts at a multiple of the access size, the indices are whole numbers
            flat = whose.astype(np.int64) * length + at.astype(np.int64)
            if length % dtype.itemsize == 0:
                yield slice(None), memory[: len(memory) // 16 * 16].view(dtype), flat // dtype.itemsize
            else:
                for k in range(len(lanes)):
                    here = memory[flat[k] : flat[k] + size].view(dtype)
                    yield slice(k, k + 1), here, np.zeros(1, np.int64)
        else:
            yield from self._global(at, dtype, size)

    def _global(self, at: np.ndarray, dtype: np.dtype, size: int) -> Any:
        starts = self.memory.starts
        low, high = int(at.min()), int(at.max())
        k = bisect.bisect_right(starts, low) - 1
        if k >= 0 and high + size <= starts[k] + self.memory.blocks[starts[k]][2]:
            yield (
                slice(None),
                self._view(starts[k], dtype),
                (at - np.uint64(starts[k])).astype(np.int64) // dtype.itemsize,
            )
            return
        which = np.searchsorted(np.asarray(starts, np.uint64), at, "right") - 1
        for k in np.unique(which):
            chosen = np.flatnonzero(which == k)
            start = starts[k] if k >= 0 else 0
            length = self.memory.blocks[start][2] if k >= 0 else 0
            outside = at[chosen].astype(object) + size > start + length
            if k < 0 or outside.any():
                bad = int(at[chosen][outside.astype(bool)][0]) if k >= 0 else low
                raise Fault(ILLEGAL_ADDRESS, f"{size} bytes at {bad:#x}, where no memory is")
            yield chosen, self._view(start, dtype), (at[chosen] - np.uint64(start)).astype(np.int64) // dtype.itemsize

    def _view(self, start: int, dtype: np.dtype) -> np.ndarray:
        length = self.memory.blocks[start][2] // dtype.itemsize
        return np.frombuffer((ctypes.c_uint8 * (length * dtype.itemsize)).from_address(start), dtype)


def _special(launch: Any, inside: np.ndarray, number: np.ndarray) -> dict[str, Any]:
    """Return the values of the special registers."""
    x, y, _ = launch.block
    gx, gy, _ = launch.grid
    u = np.uint32
    lane = (inside % WARP).astype(u)
    one = np.uint64(1)
    below = ((one << lane.astype(np.uint64)) - one).astype(u)
    found = {
        "%tid.x": (inside % x).astype(u),
        "%tid.y": (inside // x % y).astype(u),
        "%tid.z": (inside // (x * y)).astype(u),
        "%ctaid.x": (number % gx).astype(u),
        "%ctaid.y": (number // gx % gy).astype(u),
        "%ctaid.z": (number // (gx * gy)).astype(u),
        "%laneid": lane,
        "%warpid": (inside // WARP).astype(u),
        "%smid": (number % 132).astype(u),
        "%lanemask_lt": below,
        "%lanemask_eq": (one << lane.astype(np.uint64)).astype(u),
        "%lanemask_le": (below | (one << lane.astype(np.uint64)).astype(u)),
        "%lanemask_ge": ~below,
        "%lanemask_gt": ~(below | (one << lane.astype(np.uint64)).astype(u)),
    }
    fixed = {"%warpsize": WARP, "%nsmid": 132, "%gridid": 1, "%dynamic_smem_size": launch.shared_bytes}
    for k, axis in enumerate("xyz"):
        fixed[f"%ntid.{axis}"] = launch.block[k]
        fixed[f"%nctaid.{axis}"] = launch.grid[k]
    return found | {name: u(value) for name, value in fixed.items()}


@dataclass(slots=True)
class Run:
    """The execution of blocks that run concurrently."""

    grid: Grid
    ready: dict[int, list[np.ndarray]] = field(default_factory=dict)
    waiting: dict[int, list[tuple[np.ndarray, int, Barrier, int]]] = field(default_factory=dict)
    held: dict[int, np.ndarray] = field(default_factory=dict)
    turns: int = 0

    def to_end(self) -> None:
        """Run until every thread has ended."""
        grid = self.grid
        self.ready[0] = [grid.active]
        while True:
            while self.ready:
                self._go(*self._next())
                self._turn()
            if not self.waiting and not self.held:
                return
            if not self._release():
                raise Fault(LAUNCH_FAILED, "threads wait for each other, or for some that ended")

    def _turn(self) -> None:
        self.turns += 1
        if self.turns > PATIENCE:
            raise Fault(LAUNCH_FAILED, "threads go round and round")

    def _next(self) -> tuple[int, np.ndarray]:
        at = min(self.ready)
        # (at random: a deterministic choice might never leave a loop)
        if len(self.ready) > 1 and self.grid.random.random() < 1 / 8:
            at = int(self.grid.random.choice(list(self.ready)))
        parts = self.ready.pop(at)
        lanes = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
        if self.grid.random.random() < DRIFT:
            ahead = self.grid.random.random(self.grid.lanes // WARP)[self.grid.warp_of[lanes]] < 0.5
            if ahead.any():
                self._put(at, lanes[~ahead])
                lanes = lanes[ahead]
        return at, lanes

    def _put(self, at: int, lanes: np.ndarray) -> None:
        if len(lanes):
            self.ready.setdefault(at, []).append(lanes)

    def _go(self, at: int, lanes: np.ndarray) -> None:
        """Run the given lanes, starting at the step with the index `at`, until they diverge, wait, end, or may
        reconverge.
        """
        grid, steps, leaders = self.grid, self.grid.program.steps, self.grid.program.leaders
        while True:
            every = slice(None) if len(lanes) == grid.lanes else lanes
            step = steps[at]
            if grid.traffic is not None:
                grid.traffic.instructions += len(np.unique(grid.warp_of[lanes]))
            match step:
                case Plain(run=run, guard=""):
                    run(grid, every)
                case Plain():
                    chosen = lanes[grid.regs[step.guard][lanes] != step.negated]
                    if len(chosen):
                        step.run(grid, chosen)
                case Branch(guard=""):
                    self._turn()
                    at = step.target - 1
                case Branch():
                    taken = grid.regs[step.guard][lanes] != step.negated
                    if taken.all():
                        self._turn()
                        at = step.target - 1
                    elif taken.any():
                        self._put(step.target, lanes[taken])
                        self._put(at + 1, lanes[~taken])
                        return
                case Table():
                    index = np.broadcast_to(step.index(grid, lanes), lanes.shape)
                    for k, target in enumerate(step.targets):
                        self._put(target, lanes[index == k])
                    return
                case Return():
                    leave = np.ones(len(lanes), bool)
                    if step.guard:
                        leave = grid.regs[step.guard][lanes] != step.negated
                    if not grid.depth:
                        grid.alive[lanes[leave]] = False
                    self._put(at + 1, lanes[~leave])
                    if not grid.depth and leave.any() and self.waiting:
                        self._release()
                    return
                case Barrier():
                    self._wait(at, lanes, step)
                    return
                case Together():
                    if step.guard:
                        chosen = grid.regs[step.guard][lanes] != step.negated
                        self._put(at + 1, lanes[~chosen])
                        lanes = lanes[chosen]
                        if not len(lanes):
                            return
                    whole, rest = self._meet(at, lanes, step)
                    if len(rest):
                        self.held[at] = rest
                    if not len(whole):
                        return
                    step.run(grid, slice(None) if len(whole) == grid.lanes else whole)
                    lanes = whole
            at += 1
            if at in leaders and self.ready:
                self._put(at, lanes)
                return

    def _meet(self, at: int, lanes: np.ndarray, step: Together) -> tuple[np.ndarray, np.ndarray]:
        """Divide lanes into those that can execute a warp operation, and those that must wait."""
        grid = self.grid
        before = self.held.pop(at, None)
        if before is not None:
            lanes = np.sort(np.concatenate([before, lanes]))
        mask = np.broadcast_to(np.asarray(step.mask(grid, lanes)).astype(np.uint32), lanes.shape)
        present = np.zeros(grid.lanes // WARP, np.uint32)
        np.bitwise_or.at(present, grid.warp_of[lanes], np.uint32(1) << grid.lane_of[lanes])
        there = (present[grid.warp_of[lanes]] & mask) == mask
        inside = (mask >> grid.lane_of[lanes]) & np.uint32(1)
        if not inside.all():
            raise Fault(LAUNCH_FAILED, "a lane is not in the mask it gives")
        return lanes[there], lanes[~there]

    def _wait(self, at: int, lanes: np.ndarray, step: Barrier) -> None:
        numbers = np.broadcast_to(np.asarray(step.number(self.grid, lanes)), lanes.shape)
        counts = np.broadcast_to(np.asarray(step.count(self.grid, lanes) if step.count else 0), lanes.shape)
        for number in np.unique(numbers):
            for count in np.unique(counts[numbers == number]):
                chosen = lanes[(numbers == number) & (counts == count)]
                self.waiting.setdefault(int(number), []).append((chosen, at, step, int(count)))
        self._release()

    def _release(self) -> bool:
        """Resume threads at barriers that enough threads have reached. Return whether any thread was resumed."""
        grid = self.grid
        living = np.bincount(grid.block_of, grid.alive, grid.blocks).astype(np.int64)
        gone = False
        for number in list(self.waiting):
            entries = self.waiting[number]
            come = sum(np.bincount(grid.block_of[lanes], minlength=grid.blocks) for lanes, *_ in entries)
            wanted = max((count for *_, count in entries), default=0)
            free: Any = (come > 0) & (come >= (wanted or living))
            if not free.any():
                continue
            gone, rest = True, []
            for lanes, at, step, count in self._joined(entries):
                goes = free[grid.block_of[lanes]]
                if step.fold is not None and goes.any():
                    step.fold(grid, lanes[goes])
                self._put(at + 1, lanes[goes])
                if not goes.all():
                    rest.append((lanes[~goes], at, step, count))
            if rest:
                self.waiting[number] = rest
            else:
                del self.waiting[number]
        return gone

    @staticmethod
    def _joined(entries: list[Any]) -> list[Any]:
        """Merge groups of threads that wait at the same barrier instruction with equal operands. Each item in `entries` describes one group."""
        found: dict[tuple[int, int], Any] = {}
        for lanes, at, step, count in entries:
            before = found.get((at, count))
            whole = lanes if before is None else np.sort(np.concatenate([before[0], lanes]))
            found[at, count] = whole, at, step, count
        return list(found.values())


def run(
    program: Program, memory: Any, launch: Any, parameters: bytes, seed: int = 0, traffic: Traffic | None = None
) -> None:
    """Run a launch to its end. If `traffic` is given, add the memory accesses to it.

    Raises `Fault` for an error that would stop a GPU.
    """
    count = launch.grid[0] * launch.grid[1] * launch.grid[2]
    threads = -(-launch.block[0] * launch.block[1] * launch.block[2] // WARP) * WARP
    batch = count if launch.cooperative else max(1, MOST_LANES // threads)
    random = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        for first in range(0, count, batch):
            blocks = range(first, min(first + batch, count))
            Run(Grid(program, memory, launch, blocks, parameters, random, traffic)).to_end()
