"""Scheduler for the threads of a kernel in Python mode.

In: a Python function, its arguments, grid and block. Out: the function's effects, or its first error with block and
thread. Invariant: exactly one simulated thread runs at a time, in an order that depends only on the program. If no
thread waits, all threads run in the calling OS thread. A waiting thread blocks its OS thread, and the other simulated
threads continue in another OS thread. The scheduler knows the scope of a synchronization, but not its meaning.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np

from weft.dsl.kernel.language.kernel_errors import DivergenceError, KernelError
from weft.dsl.kernel.language.names import NAMES, Intrinsic, running
from weft.runtime import show_cell

WARP = 32
_NAPS = 1000  # number of rounds in which all threads sleep before the next block may start concurrently

Triple = tuple[int, int, int]
Scope = Literal["block", "grid", "warp", "active"]
# the call stack from the kernel inwards: id of the code object, and instruction offset
Site = tuple[tuple[int, int], ...]
Combine = Callable[[dict[int, Any]], Mapping[int, Any]]


class Abandoned(BaseException):
    """Raised in a simulated thread whose launch has failed, to unwind the thread's stack."""


@dataclass(slots=True)
class Wait:
    """A thread's wait at a synchronization point, with the value that the thread contributes.

    Threads whose waits have equal `key` wait for each other. `combine` maps the contributed values to the threads'
    results. Both are dicts by lane for the scopes "warp" and "active", otherwise by rank in the block.
    """

    scope: Scope
    path: str
    site: Site
    line: str
    lanes: int
    value: Any
    combine: Combine

    @property
    def key(self) -> tuple[Any, ...]:
        return self.scope, self.path, self.site, self.lanes

    def __str__(self) -> str:
        mask = f"mask={self.lanes:#010x}" if self.scope == "warp" else ""
        return f"cuda.{self.path}({mask}) at {self.line}"


class SimulatedBlock:
    """A started block of a simulated launch, with its threads and its shared memory."""

    def __init__(self, launch: SimulatedLaunch, index: Triple) -> None:
        self.index = index
        self.shared: dict[Any, np.ndarray] = {}
        self.dynamic: np.ndarray = np.full(launch.shared_bytes, 0xFF, np.uint8)
        self.arrived: Counter[tuple[Any, ...]] = Counter()
        thread_indices = product(*(range(n) for n in reversed(launch.block)))
        self.threads = [RunningThread(launch, self, k[::-1], rank) for rank, k in enumerate(thread_indices)]  # type: ignore[arg-type]
        self.live = len(self.threads)

    def warp(self, number: int) -> list[RunningThread]:
        """Return the threads of a warp in the order of their lanes."""
        return self.threads[number * WARP : (number + 1) * WARP]

    def waiting(self) -> list[RunningThread]:
        """Return the threads that wait at a synchronization point."""
        return [thread for thread in self.threads if thread.wait is not None]


@dataclass(slots=True, eq=False, repr=False)
class RunningThread:
    """A simulated thread of a kernel."""

    launch: SimulatedLaunch
    block: SimulatedBlock
    index: Triple
    rank: int
    warp: int = field(init=False)
    lane: int = field(init=False)
    local: dict[Any, np.ndarray] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    stack: Stack | None = None
    path: str = ""  # the intrinsic that it executes
    wait: Wait | None = None
    answer: Any = None
    ended: bool = False

    def __post_init__(self) -> None:
        self.warp, self.lane = divmod(self.rank, WARP)

    def number(self, path: str) -> int:
        """Return the value of a built-in variable, such as ``threadIdx.x`` or ``laneid``."""
        if not self.numbers:
            triples = {
                "threadIdx": self.index,
                "blockIdx": self.block.index,
                "blockDim": self.launch.block,
                "gridDim": self.launch.grid,
            }
            self.numbers = {f"{n}.{axis}": v for n, t in triples.items() for axis, v in zip("xyz", t, strict=True)}
            self.numbers["laneid"] = self.lane
        return self.numbers[path]

    def perform(self, path: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Execute the intrinsic with the path `path` in this thread."""
        if self.launch.over:
            raise Abandoned
        self.path = path
        action = self.launch.actions[path]
        if keywords:
            arguments = tuple(NAMES[path].bind(arguments, keywords).values())
        try:
            return action(self, *arguments)
        except TypeError:
            NAMES[path].bind(arguments, {})  # if the arguments do not fit, this raises a clearer error
            raise

    def synchronize(self, scope: Scope, value: object, combine: Combine, lanes: int = 0) -> Any:
        """Wait at a synchronization point, and return this thread's result.

        `combine` computes the results from the values of all threads.
        """
        frames = call_frames()
        site = tuple((id(frame.f_code), frame.f_lasti) for frame in frames)
        self.wait = Wait(scope, self.path, site, user_line(frames), lanes, value, combine)
        self.launch.arrive(self)
        assert self.stack is not None
        self.stack.suspend(self)
        return self.answer

    def yield_to_others(self) -> None:
        """Let other threads that can run go first, and then continue this thread."""
        self.launch.sleepers.append(self)
        assert self.stack is not None
        self.stack.suspend(self)

    def __str__(self) -> str:
        return str(self.index)


def call_frames() -> list[FrameType]:
    """Return the Python stack frames from an intrinsic's caller (first) to the kernel function (last)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not Intrinsic.__call__.__code__:
        frame = frame.f_back
    frames = []
    frame = frame.f_back if frame is not None else None
    while frame is not None and frame.f_code is not Stack.carry.__code__:
        frames.append(frame)
        frame = frame.f_back
    return frames


def user_line(frames: Sequence[FrameType]) -> str:
    """Return the file and line of the innermost frame in user code."""
    package = str(Path(__file__).parents[1])
    frame = next((f for f in frames if not f.f_code.co_filename.startswith(package)), frames[0])
    path = frame.f_code.co_filename
    return f"{show_cell(path) or path}:{frame.f_lineno}"


class Stack:
    """An OS thread, which serves as the call stack of simulated threads. It runs these threads one after another.

    Exactly one stack of a launch runs at a time. The others wait for their locks, `_baton`. A stack that stops running
    releases the lock of the stack that continues.
    """

    def __init__(self, launch: SimulatedLaunch) -> None:
        self._launch = launch
        self._baton = threading.Lock()
        self._baton.acquire()
        self._next: RunningThread | None = None
        self._carrier: threading.Thread | None = None

    def start(self, thread: RunningThread) -> None:
        """Start this OS thread. It begins with the simulated thread `thread`.

        The calling stack must then wait for its own `_baton`.
        """
        trace = sys.gettrace()  # the debugger's trace function of the starting thread

        def run() -> None:
            if trace is not None and sys.gettrace() is None:
                sys.settrace(trace)
            with suppress(Abandoned):
                self.carry(thread)

        self._carrier = threading.Thread(target=run, name="weft kernel", daemon=True)
        self._launch.stacks.append(self)
        try:
            self._carrier.start()
        except RuntimeError as error:
            raise KernelError(
                f"{error}: threads of a kernel that wait for one another each need an OS thread in Python mode "
                f"({len(self._launch.stacks) - 1} run); launch fewer or smaller blocks"
            ) from None

    def resume(self, thread: RunningThread | None = None) -> None:
        """Let this OS thread run. If it already has a simulated thread, it continues that one, otherwise it starts `thread`."""
        self._next = thread
        self._baton.release()

    def abandon(self, at_once: bool) -> None:
        """Raise an exception in the simulated thread that this OS thread runs, so that both end. With `at_once`, the exception interrupts running code."""
        carrier = self._carrier
        if carrier is None or not carrier.is_alive():
            return
        if at_once and carrier.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(carrier.ident), ctypes.py_object(Abandoned))
        self.resume()
        carrier.join()

    def carry(self, thread: RunningThread | None) -> None:
        """Run a simulated thread to its end. Then run other threads that the scheduler starts on this OS thread."""
        launch = self._launch
        before = running.thread
        try:
            with np.errstate(all="ignore"):
                while thread is not None and not launch.over:
                    thread.stack = self
                    running.thread = thread
                    try:
                        launch.function(*launch.arguments)
                    except Abandoned:
                        return
                    except BaseException as error:
                        launch.fail(error, thread)
                    launch.end(thread)
                    thread = self._take()
        finally:
            running.thread = before

    def _take(self) -> RunningThread | None:
        """Return the next simulated thread to start, or None if the launch has ended.

        Other stacks may run before this method returns.
        """
        launch = self._launch
        thread = launch.choose()
        if thread is None:
            launch.finish(self)
            return None
        if thread.stack is None:
            return thread
        launch.idle.append(self)
        thread.stack.resume()
        self._baton.acquire()
        return None if launch.over else self._next

    def suspend(self, thread: RunningThread) -> None:
        """Suspend a simulated thread, and run others until the scheduler chooses it again."""
        launch = self._launch
        other = launch.choose()
        if other is thread:
            return
        if other is None:
            if launch.finish(self):
                raise Abandoned
        elif other.stack is not None:
            other.stack.resume()
        elif launch.idle:
            launch.idle.pop().resume(other)
        else:
            Stack(launch).start(other)
        self._baton.acquire()
        if launch.over:
            raise Abandoned


@dataclass(eq=False)
class SimulatedLaunch:
    """A kernel launch in Python mode, with its blocks and the schedule of its threads.

    Threads that were released from a synchronization point run first, then threads of the newest block that have not
    started, then sleeping threads. If there are none, lanes that wait at an `activemask` are released. If every thread
    has ended or waits for the grid, the next block starts. After the last block, the grid barrier releases its threads.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    grid: Triple
    block: Triple
    shared_bytes: int
    actions: Mapping[str, Callable[..., Any]]
    over: bool = False
    failure: BaseException | None = None
    children: list[Callable[[], None]] = field(default_factory=list)  # launches recorded by its threads
    stacks: list[Stack] = field(default_factory=list)
    idle: list[Stack] = field(default_factory=list)
    sleepers: deque[RunningThread] = field(default_factory=deque)
    _ready: deque[RunningThread] = field(default_factory=deque)
    _blocks: list[SimulatedBlock] = field(default_factory=list)
    _naps: int = 0

    def __post_init__(self) -> None:
        self._fresh: Iterator[RunningThread] = iter(())
        self._indices = product(*(range(n) for n in reversed(self.grid)))
        self._main = Stack(self)

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "kernel")

    def run(self) -> None:
        """Run all threads, and then the kernel launches that they have scheduled.

        Raise the first exception of a thread, or DivergenceError if threads wait forever.
        """
        self._main.carry(self.choose())
        self.over = True
        for stack in self.stacks:  # one at a time, because each may run the user's `finally`
            stack.abandon(isinstance(self.failure, KeyboardInterrupt))
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        for start in self.children:
            start()

    # -- scheduling --

    def choose(self) -> RunningThread | None:
        """Return the next thread to run, or None if the launch has ended or failed."""
        while self.failure is None:
            if self._ready:
                return self._ready.popleft()
            thread = next(self._fresh, None)
            if thread is not None:
                return thread
            if self.sleepers:
                self._naps += 1
                if self._naps < _NAPS * len(self.sleepers) or not self._open_block():
                    return self.sleepers.popleft()
            elif not (self._release_active() or self._report_stuck() or self._open_block() or self._release_grid()):
                return None
        return None

    def finish(self, stack: Stack) -> bool:
        """Mark the launch as ended. If the caller is not the launch's main OS thread, resume the main thread.

        The calling OS thread is `stack`. Return whether it is the main thread.
        """
        self.over = True
        if stack is not self._main:
            self._main.resume()
        return stack is self._main

    def fail(self, error: BaseException, thread: RunningThread) -> None:
        """Record a thread's error if it is the first error of the launch."""
        if self.failure is None:
            error.add_note(f"in thread {thread} of block {thread.block.index}, kernel {self.name}")
            self.failure = error.with_traceback(error.__traceback__.tb_next if error.__traceback__ else None)

    def _open_block(self) -> bool:
        index = next(self._indices, None)
        if index is None:
            return False
        block = SimulatedBlock(self, index[::-1])  # type: ignore[arg-type]
        self._blocks = [b for b in self._blocks if b.live]
        self._blocks.append(block)
        self._fresh = iter(block.threads)
        self._naps = 0
        return True

    # -- synchronization --

    def arrive(self, thread: RunningThread) -> None:
        """Record that a thread waits at a synchronization point. If all threads of its block or warp wait there, let them continue."""
        assert thread.wait is not None
        key = thread.wait.key
        thread.block.arrived[key] += 1
        if thread.wait.scope == "block":
            self._try_block(thread.block, key)
        elif thread.wait.scope == "warp":
            self._try_warp(thread.block.warp(thread.warp), key, thread.wait.lanes)

    def end(self, thread: RunningThread) -> None:
        """Record that a thread has ended, and release the threads that waited only for this thread.

        After an error, no thread is released.
        """
        thread.ended = True
        block = thread.block
        block.live -= 1
        if self.failure is not None:
            return
        try:
            for key in [key for key in block.arrived if key[0] == "block"]:
                self._try_block(block, key)
            warp = block.warp(thread.warp) if block.arrived else []
            for wait in {t.wait.key: t.wait for t in warp if t.wait is not None and t.wait.scope == "warp"}.values():
                self._try_warp(warp, wait.key, wait.lanes)
        except Exception as error:  # the values of the waiting threads cannot be combined
            self.fail(error, thread)

    def _try_block(self, block: SimulatedBlock, key: tuple[Any, ...]) -> None:
        if block.live and block.arrived[key] == block.live:
            self._release([thread for thread in block.threads if not thread.ended])

    def _try_warp(self, warp: list[RunningThread], key: tuple[Any, ...], lanes: int) -> None:
        members = [thread for thread in warp if lanes >> thread.lane & 1 and not thread.ended]
        if all(thread.wait is not None and thread.wait.key == key for thread in members):
            self._release(members)

    def _release(self, group: list[RunningThread]) -> None:
        """Release threads from a synchronization point, and give each thread its result."""
        first = group[0].wait
        assert first is not None
        by_lane = first.scope in ("warp", "active")
        brought = {t.lane if by_lane else t.rank: t.wait.value for t in group if t.wait is not None}
        answers = first.combine(brought) if first.scope != "grid" else {}
        for thread in group:
            arrived = thread.block.arrived
            arrived[first.key] -= 1
            if not arrived[first.key]:
                del arrived[first.key]
            thread.answer = answers.get(thread.lane if by_lane else thread.rank)
            thread.wait = None
        self._ready.extend(group)

    def _release_active(self) -> bool:
        """Release lanes of a warp that wait at the same `activemask`. Return whether there were any."""
        for block in self._blocks:
            if not any(key[0] == "active" for key in block.arrived):
                continue
            at = [t for t in block.waiting() if t.wait is not None and t.wait.scope == "active"]
            first = at[0]
            self._release(
                [t for t in at if t.warp == first.warp and t.wait and first.wait and t.wait.key == first.wait.key]
            )
            return True
        return False

    def _release_grid(self) -> bool:
        group = [thread for block in self._blocks for thread in block.waiting()]
        if not group:
            return False
        if len({thread.wait.key for thread in group if thread.wait is not None}) > 1:
            return self._diverge(group, "the grid")
        self._release(group)
        return True

    def _report_stuck(self) -> bool:
        """Record a DivergenceError if threads wait for each other forever, and return whether they do."""
        for block in self._blocks:
            if any(key[0] != "grid" for key in block.arrived):
                return self._diverge(block.threads, f"block {block.index}")
        return False

    def _diverge(self, threads: list[RunningThread], where: str) -> bool:
        groups: dict[str, list[RunningThread]] = {}
        for thread in threads:
            at = "have ended" if thread.wait is None else f"wait at {thread.wait}"
            groups.setdefault(at, []).append(thread)
        lines = [f"\n  {_name_threads(group)} {at}" for at, group in groups.items()]
        self.failure = DivergenceError(
            f"kernel {self.name}: threads of {where} wait for one another at different calls:{''.join(lines)}\n"
            "every thread that a barrier or mask names has to come to the same call"
        )
        return True


def _name_threads(threads: list[RunningThread]) -> str:
    """Return text that names up to four threads and counts the others."""
    names = [str(thread) for thread in threads[:4]]
    rest = len(threads) - len(names)
    return ("threads " if len(threads) > 1 else "thread ") + ", ".join(names) + (f" and {rest} more" if rest else "")
