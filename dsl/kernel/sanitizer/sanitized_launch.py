"""Sanitized launches, which run kernels on the CPU and check every access.

In: a launch inside ``with weft.sanitize():`` or with ``WEFT_SANITIZE=1``. Out: a `SanitizerError` with reports if
there are findings. The sanitizer detects out-of-bounds and misaligned accesses, which end the thread instead of being
executed. It detects reads of uninitialized memory (shared, local, and device arrays from ``device_array`` or
``empty``), races within a block and between blocks, and barriers that not all threads of a block reach.

Invariant: the same kernel runs, compiled for the CPU with 64-bit indices. Blocks run one after the other, unless the
grid synchronizes. Arrays of other devices are copied to the CPU and back. An access takes one to two microseconds, and
the record of an accessed element takes about 300 bytes. Inside a recursive function, an invalid access ends only that
call. Constant memory is checked only for bounds.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from weft.dsl.arrays.array import Array as LazyArray
from weft.dsl.kernel.language.kernel_errors import SourceLocation
from weft.dsl.kernel.launch.kernel_launch import DispatchedLaunch, HostCopies
from weft.dsl.kernel.sanitizer.detector import Detector, Finding, FindingKind, Unwritten
from weft.dsl.kernel.sanitizer.tracer import Site, SiteKind
from weft.runtime import Buffer, Device, KernelFault, WeftError, get_device, override, public_error, tracing

if TYPE_CHECKING:
    from weft.dsl.kernel.language.specialize import Specialization
    from weft.fusion import Storage

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """An operation of a thread, with its source location.

    Attributes
    ----------
    file : str
    line : int
    block, thread : tuple of 3 int
    access : str
        The kind of operation: read, write, atomic, index, barrier or warp operation.
    """

    file: str
    line: int
    block: Triple
    thread: Triple
    access: str
    location: SourceLocation


@dataclass(frozen=True, slots=True)
class Report(ThreadAccess):
    """An error in a launch: an operation of a thread, and why it is an error.

    Attributes
    ----------
    kind : str
        One of `FindingKind`.
    array : str
        The array's name in the source line. Empty for barriers.
    index : tuple of int
        The index as written, possibly negative. Empty if there is none.
    other : ThreadAccess or None
        The operation of the other thread, if two threads are in a race or wait at different barriers.
    count : int
        Number of occurrences.
    """

    kind: FindingKind
    array: str
    index: tuple[int, ...]
    other: ThreadAccess | None
    count: int

    def __str__(self) -> str:
        where = f"block {self.block}, thread {self.thread}, line {self.line}"
        shown = f"{self.array}[{', '.join(map(str, self.index))}]" if self.index else self.array
        match self.kind:
            case "out of bounds":
                text = f"{self.kind}: {shown} does not exist, in {where}"
            case "uninitialized":
                text = f"{self.kind}: {shown} is read, which nobody has written, in {where}"
            case "misaligned":
                text = f"{self.kind}: {shown} does not lie at a multiple of its size, in {where}"
            case "race":
                text = f"{self.kind}: {_DONE[self.access]} {shown} in {where}"
            case "divergent barrier" if self.access == "warp operation":
                text = f"{self.kind}: {where} reaches this warp operation, but not all lanes of the mask do"
            case "divergent barrier" if self.other is None:
                text = f"{self.kind}: {where} reaches this barrier, but not all threads of the block do"
            case "divergent barrier":
                text = f"{self.kind}: threads of one block wait at different barriers: {where}"
            case _:
                assert_never(self.kind)
        text += f"\n{self.location.show()}"
        if self.kind == "divergent barrier" and self.access != "warp operation" and self.other is None:
            text += f"\n{_ALL_THREADS}"
        if self.other is not None:
            other = self.other
            join = "is not ordered with" if self.kind == "race" else "and"
            done = _DONE[other.access] + " it in " if self.kind == "race" else ""
            text += (
                f"\n{join} {done}block {other.block}, thread {other.thread}, line {other.line}\n{other.location.show()}"
            )
            if self.kind == "race":
                together = _ONE_STATEMENT if self.line == other.line else _ORDERED_BY_BARRIER
                if self.line == other.line and self.access == other.access == "write":
                    together = _BOTH_WRITE
                text += f"\n{together if self.block == other.block else _UNORDERED_BLOCKS}"
        return text


_ORDERED_BY_BARRIER = "A barrier between the two accesses, such as cuda.syncthreads(), orders them."
_ALL_THREADS = (
    "Every thread of a block must reach the barrier: move it out of the `if`, and let threads without work skip the work "
    "instead of returning before the barrier."
)
_BOTH_WRITE = (
    "Both threads write the element: let only one of them write, or use an atomic operation, such as cuda.atomic.add."
)
_ONE_STATEMENT = (
    "Both accesses are on one line: use an atomic operation, such as cuda.atomic.add, or read the elements into variables "
    "before a barrier."
)
_UNORDERED_BLOCKS = (
    "Blocks run in any order: use atomic operations (and cuda.threadfence() for other data), or several launches."
)
_DONE = {"read": "reading", "write": "writing", "atomic": "an atomic on"}
_ACCESS = {SiteKind.READ: "read", SiteKind.WRITE: "write", SiteKind.ATOMIC: "atomic", SiteKind.OUTSIDE: "index"}
_ACCESS |= dict.fromkeys((SiteKind.WARP_BARRIER, SiteKind.WARP), "warp operation")


@public_error
class SanitizerError(WeftError):
    """Raised if the sanitizer finds errors in a kernel launch.

    Attributes
    ----------
    kernel : str
    reports : list of Report
        Reports, one for each kind of error and pair of locations, at most 100. Divergent barriers, which cause races,
        come first. The others are in the order of detection.
    """

    def __init__(self, kernel: str, reports: list[Report]) -> None:
        more = len(reports) - 1
        rest = f"\n({more} more: see .reports)" if more else ""
        super().__init__(f"kernel {kernel}: {reports[0]}{rest}")
        self.kernel = kernel
        self.reports = reports


def sanitize() -> AbstractContextManager[None]:
    """Check launches of user-written kernels (``with weft.sanitize():``).

    In the block, the memory accesses and barriers of these kernels are checked. If a kernel has errors, its launch
    raises `SanitizerError`. With WEFT_SANITIZE=1, all launches of user-written kernels are checked.

    Returns
    -------
    context manager

    Examples
    --------
    >>> @wf.kernel
    ... def beyond(x):
    ...     x[x.size] = 1
    >>> try:
    ...     with wf.sanitize():
    ...         beyond[1, 1](wf.zeros(4))
    ... except wf.SanitizerError as error:
    ...     print(error.reports[0].kind)
    out of bounds
    """
    return override(sanitize=True)


class SanitizedLaunch(DispatchedLaunch):
    """A launch of a kernel that is instrumented by the sanitizer."""

    sanitized = True

    def choose_device(self, given: tuple[Any, ...]) -> Device:
        """Return the CPU, because instrumented kernels run only there."""
        self.unwritten: list[Unwritten] = []
        self.host_copies = HostCopies()  # of arrays on other devices
        return get_device("cpu")

    def choose_index(self) -> np.dtype:
        """Return int64, so that an out-of-bounds index cannot wrap around to a valid index."""
        return np.dtype(np.int64)

    def _hidden(self, found: Specialization, items: list[int]) -> tuple[Any, Any]:
        record, queue = super()._hidden(found, items)
        self._record = record
        return record, queue

    def _prepare(self, value: object) -> Any:
        found = super()._prepare(value)
        if isinstance(found, LazyArray) or hasattr(found, "kernel_type"):
            return found if found.device is self.device else self.host_copies.convert(found)
        if isinstance(found, np.ndarray) and not found.flags.aligned:
            # A GPU gets an aligned copy, so the sanitizer uses one as well.
            host = found.copy()
            self.copies.append((self.number, partial(np.copyto, found, host)))
            return host
        return found

    def memory(self, storage: Storage, written: bool) -> Buffer:
        """Return the buffer of an array argument, and register the buffer's uninitialized bytes."""
        fresh = storage.expr is not None and storage.buffer is None and storage.expr.kind == "empty"
        known = None if storage.buffer is None else storage.buffer.unwritten
        buffer = super().memory(storage, written)
        if fresh or known is not None:
            if not isinstance(known, bytearray):
                known = bytearray(b"\1") * buffer.nbytes
            buffer.unwritten = known
            self.unwritten.append(Unwritten(buffer.address, buffer.address + buffer.nbytes, known))
        return buffer

    def start(self, found: Specialization, function: Any, items: list[int]) -> None:
        """Launch the kernel, analyze its events, and raise SanitizerError if there are errors.

        If a failed ``assert`` or ``raise`` of the kernel may be the cause of a divergent barrier, raise its error instead.
        """
        launcher = self.launcher
        assert found.tracer is not None
        detector = Detector(found.tracer.sites, int(np.prod(launcher.block)), self.unwritten, function.cooperative)
        try:
            with (
                detecting(detector, self.kernel.__name__, launcher.grid, launcher.block),
                tracing(found.kernel.attributes["trace"], detector.take),
            ):
                self.device.launch_grid(
                    function, launcher.grid, launcher.block, launcher.shared_bytes, array("q", items), launcher.stream
                )
        except SanitizerError as error:
            if error.reports[0].kind == "divergent barrier":
                self._finish(found, self._record, None)
            raise
        finally:
            self.host_copies.write_back()


@contextmanager
def detecting(detector: Detector, kernel: str, grid: Triple, block: Triple) -> Iterator[None]:
    """Context manager around one kernel launch. The kernel reports its events, such as memory accesses, to `detector`.

    Raises SanitizerError at the end if the detector has found errors. Until then, Python's garbage collector is
    disabled, because it would take long to scan all recorded accesses.
    """
    collects = gc.isenabled()
    gc.disable()
    stuck: KernelFault | None = None
    try:
        yield
    except KernelFault as fault:
        stuck = fault
    finally:
        if collects:
            gc.enable()
    findings = detector.finish(stuck is not None)
    if findings:
        reports = [
            make_report(f, detector.counts[f.kind, f.site, f.other and f.other[0]], grid, block) for f in findings
        ]
        raise SanitizerError(kernel, reports) from None
    if stuck is not None:
        raise stuck


def make_report(finding: Finding, count: int, grid: Triple, block: Triple) -> Report:
    """Create the report of an error that the detector has found `count` times."""

    def operation(site: Site, block_number: int, thread_number: int) -> dict[str, Any]:
        return {
            "file": site.location.file,
            "line": site.location.line,
            "block": _triple(block_number, grid),
            "thread": _triple(thread_number, block),
            "access": _ACCESS.get(site.kind, "barrier"),
            "location": site.location,
        }

    site = finding.site
    other = None if finding.other is None else ThreadAccess(**operation(*finding.other))
    first = operation(site, finding.block, finding.thread)
    return Report(**first, kind=finding.kind, array=site.array, index=finding.index, other=other, count=count)


def _triple(number: int, extents: Sequence[int]) -> Triple:
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)


# -- fused kernels -------------------------------------------------------------------------------

_KINDS = {kind.name.lower(): kind for kind in SiteKind}
_GRID = (1 << 31, 1, 1)  # an upper bound of the grid size; the grid has one dimension, so a block's number is its index


def _fused_site(name: str, number: int, facts: tuple[Any, ...]) -> Site:
    kind, text, array, space, size, align, numbers, valued, compares = facts
    location = SourceLocation(f"kernel {name}", number + 1, 0, len(text), text)
    return Site(_KINDS[kind], location, array, space, size, align, numbers, valued, compares)


@contextmanager
def check_launch(function: Any) -> Iterator[Callable[[list[list[int]]], None]]:
    """Context manager that checks one launch of a fused kernel.

    It yields a function that receives the events of the launch. The ``simt::sanitized`` device checks GPU schedules in
    this way. The locations in a `SanitizerError` are operations of the kernel's IR (line 1 is the first instrumented
    operation).
    """
    sites = [_fused_site(function.name, k, tuple(facts)) for k, facts in enumerate(function.traced)]
    detector = Detector(sites, function.schedule.threads)
    with detecting(detector, function.name, _GRID, (function.schedule.threads, 1, 1)):
        yield detector.take
