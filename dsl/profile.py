"""Profiles of kernels and other work, such as copies.

In: launches and compilations, as `weft.runtime` reports them to listeners. Out: a `Profile`, which can be shown as a
table of text or HTML, and written as a trace for Perfetto or Chrome or as a roofline plot. Invariant: the time of a
kernel is measured by the device's own events. Without an open profile, nothing is measured. An open profile records the
launches of every thread.
"""

from __future__ import annotations

import html
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import weft.runtime as runtime
from weft.dsl.source_table import SourceLine, show_table, source_tables
from weft.dsl.tracebacks import is_hidden
from weft.fusion import flush, seconds_spent, show_bytes, show_host_work, show_seconds, statistics
from weft.runtime import BuildNote, LaunchNote, Listening, counted, renew_in_children

_lock = threading.RLock()  # (reentrant: a finalizer may launch kernels while this thread holds the lock)
renew_in_children(sys.modules[__name__])

SHOWN = 40  # maximum number of rows of a printed table


@dataclass(slots=True)
class LaunchTime:
    """The time of one launch of a kernel, or of other work such as a copy.

    Attributes
    ----------
    note : LaunchNote
    device : str
    thread : str
    begin : float
        Seconds from the start of the profile to the start of the kernel on the device.
    seconds : float
        Duration on the device.
    launched, launching : float
        Seconds from the start of the profile to the launch on the host, and the duration of the launch there. On the CPU
        a launch returns when the kernel has ended.
    """

    note: LaunchNote
    device: str
    thread: str
    begin: float
    seconds: float
    launched: float
    launching: float


@dataclass(slots=True)
class CompileTime:
    """The time of compiling one kernel, or of loading its compiled code."""

    note: BuildNote
    thread: str
    begin: float
    seconds: float


@dataclass(slots=True)
class KernelTime:
    """The measured times of a kernel, one for each launch. Other work on a device, such as copies, is treated like a kernel.

    Attributes
    ----------
    note : LaunchNote
    device : str
    times : list of float
        Seconds of each launch on the device.
    launching : list of float
        Seconds of each launch on the host.
    compiling : float
        Seconds spent inside the profile on compiling and loading the kernel.
    bandwidth : float or None
        Measured bytes per second of a copy within the device's memory.
    """

    note: LaunchNote
    device: str
    times: list[float]
    launching: list[float]
    compiling: float
    bandwidth: float | None

    @property
    def seconds(self) -> float:
        """The total time of all launches on the device, in seconds."""
        return sum(self.times)

    @property
    def rate(self) -> float:
        """The bytes moved per second in all launches of the kernel."""
        return self.note.nbytes * len(self.times) / self.seconds if self.seconds else 0.0

    @property
    def share(self) -> float | None:
        """`rate` as a fraction of the device's measured bandwidth, or None if either is unknown."""
        return self.rate / self.bandwidth if self.bandwidth and self.note.nbytes else None


@dataclass(slots=True)
class LineTime:
    """The time that kernels spent on one line of the user's program.

    A kernel that several lines share is divided among them by the costs of their operations.

    Attributes
    ----------
    seconds : float
        Time in kernels.
    nbytes : float
        The line's share of the bytes that its kernels moved.
    kernels : list of KernelTime
    """

    seconds: float = 0.0
    nbytes: float = 0.0
    kernels: list[KernelTime] = field(default_factory=list)


class _Clock:
    """A device event and the host time at which it occurred."""

    def __init__(self, device: Any) -> None:
        self.device, self.event = device, device.create_event()
        self.event.record()
        self.event.synchronize()
        self.at = time.perf_counter_ns()


class Profile:
    """A record of the launches in a ``with weft.profile() as p:`` block.

    Other work, such as copies, is recorded in the same way. ``print(p)`` shows the record as a table.

    At the beginning of the block, pending operations of this thread are executed, and are not counted. At its end, the
    operations that the thread has recorded in the block are executed. If the block raises an exception, `launches`
    remains empty. Profiles can be nested.

    Attributes
    ----------
    launches : list of LaunchTime
        The launches in order.
    compilations : list of CompileTime
    seconds : float
        Seconds from the beginning to the end of the profile.
    counts : dict
        Increases of the counters of `weft.statistics`, and seconds spent on the host (``planning``, ``running``).
    """

    def __init__(self) -> None:
        self.counts: dict[str, Any] = {}
        self.launches: list[LaunchTime] = []
        self.compilations: list[CompileTime] = []
        self.seconds = 0.0
        self._begin = 0
        self._open: list[tuple[LaunchTime, Any, Any]] = []  # launches whose device events may still be pending
        self._clocks: dict[str, _Clock] = {}

    def __enter__(self) -> Profile:
        flush()
        self.counts = {**statistics(), **seconds_spent()}
        self._begin = time.perf_counter_ns()
        Listening.add(self)
        return self

    def __exit__(self, kind: type, *error: Any) -> None:
        try:
            if kind is None:
                flush()
        finally:
            Listening.remove(self)
            if kind is None:
                self._resolve()
            self.seconds = (time.perf_counter_ns() - self._begin) * 1e-9
            now = {**statistics(), **seconds_spent()}
            self.counts = {name: now[name] - before for name, before in self.counts.items()}

    # -- listening ------------------------------------------------------------------------------

    def launch(self, device: Any, note: LaunchNote, start: Callable[[], None]) -> None:
        """Launch a kernel or other work, and record the launch with two device events."""
        with _lock:
            if device.name not in self._clocks:
                self._clocks[device.name] = _Clock(device)
        before, after = device.create_event(), device.create_event()
        device.delay()
        before.record()
        launched = time.perf_counter_ns()
        start()
        times = self._since(launched), (time.perf_counter_ns() - launched) * 1e-9
        after.record()
        made = LaunchTime(note, device.name, threading.current_thread().name, 0.0, 0.0, *times)
        self._open.append((made, before, after))

    def built(self, note: BuildNote) -> None:
        """Record the time of compiling a kernel, or of loading its compiled code."""
        thread = threading.current_thread().name
        self.compilations.append(CompileTime(note, thread, self._since(note.begin), (note.end - note.begin) * 1e-9))

    def _since(self, at: int) -> float:
        return (at - self._begin) * 1e-9

    def _resolve(self) -> None:
        """Wait for the recorded launches to end, and add them to `launches` with their times."""
        for made, before, after in self._open:
            after.synchronize()
            clock = self._clocks[made.device]
            made.begin = self._since(clock.at) + before.elapsed(clock.event) * 1e-3
            made.seconds = after.elapsed(before) * 1e-3
            self.launches.append(made)
        self._open.clear()

    # -- results ----------------------------------------------------------------------------------

    @property
    def kernels(self) -> list[KernelTime]:
        """The launches grouped by kernel or other work, in order of decreasing total time."""
        found: dict[tuple[str, LaunchNote], KernelTime] = {}
        for one in self.launches:
            kernel = found.get((one.device, one.note))
            if kernel is None:
                rate = runtime.copy_bandwidth(self._clocks[one.device].device)
                kernel = found[one.device, one.note] = KernelTime(
                    one.note, one.device, [], [], self._compiling(one.note), rate
                )
            kernel.times.append(one.seconds)
            kernel.launching.append(one.launching)
        return sorted(found.values(), key=lambda kernel: -kernel.seconds)

    @property
    def groups(self) -> list[list[KernelTime]]:
        """The kernels grouped by their operations, in order of decreasing total time.

        A group has several kernels if its operations were compiled for several memory layouts or sizes.
        """
        found: dict[Any, list[KernelTime]] = {}
        for kernel in self.kernels:
            note = kernel.note
            found.setdefault((kernel.device, note.name, note.members or note.location), []).append(kernel)
        return sorted(found.values(), key=lambda group: -sum(kernel.seconds for kernel in group))

    @property
    def lines(self) -> dict[tuple[str, int], LineTime]:
        """The kernel time of each line of the user's program, by file and line."""
        found: dict[tuple[str, int], LineTime] = {}
        for kernel in self.kernels:
            for line, share in user_lines(kernel.note).items():
                one = found.setdefault(line, LineTime())
                one.seconds += share * kernel.seconds
                one.nbytes += share * kernel.note.nbytes * len(kernel.times)
                one.kernels.append(kernel)
        return found

    def _compiling(self, note: LaunchNote) -> float:
        """Return the seconds spent on compiling a kernel and loading its code."""
        return sum(
            one.seconds
            for one in self.compilations
            if (one.note.key == note.key if note.key else one.note.name == note.name)
        )

    @property
    def summary(self) -> str:
        """A summary of the profile in one line."""
        busy = sum(one.seconds for one in self.launches)
        text = f"{counted(len(self.launches), 'launch', 'launches')}, {show_seconds(busy)} in kernels of {show_seconds(self.seconds)}"
        if self.compilations:
            spent = sum(one.seconds for one in self.compilations)
            count = len({(one.note.key, one.note.target) for one in self.compilations})
            text += f"; {show_seconds(spent)} compiling and loading {counted(count, 'kernel')}"
        return f"{text}; {show_host_work(self.counts)}" if self.counts else text

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table of kernel groups as rows of strings, beginning with the column headings."""
        whole = sum(one.seconds for one in self.launches) or 1.0
        rows: list[tuple[str, ...]] = [
            ("time", "part", "calls", "mean", "bytes", "GB/s", "of copy", "launch", "compile", "device", "kernel")
        ]
        for group in self.groups:
            kernel = _merge(group)
            count, note, compiled = len(kernel.times), kernel.note, len({one.note.key for one in group})
            rows.append(
                (
                    show_seconds(kernel.seconds),
                    f"{100 * kernel.seconds / whole:.0f} %",
                    str(count),
                    show_seconds(kernel.seconds / count),
                    show_bytes(note.nbytes) if note.nbytes else "-",
                    f"{kernel.rate / 1e9:.1f}" if note.nbytes else "-",
                    f"{100 * kernel.share:.0f} %" if kernel.share is not None else "-",
                    show_seconds(sum(kernel.launching) / count),
                    show_seconds(kernel.compiling) if kernel.compiling else "-",
                    kernel.device,
                    describe(note) + (f" ({compiled} kernels)" if compiled > 1 else ""),
                )
            )
        return rows

    def __repr__(self) -> str:
        rows = self.rows()
        if len(rows) == 1:
            return self.summary
        shown, left = rows[: SHOWN + 1], rows[SHOWN + 1 :]
        widths = [max(len(row[k]) for row in shown) for k in range(len(rows[0]) - 1)]
        lines = [self.summary]
        for row in shown:
            cells = [text.rjust(width) for text, width in zip(row, widths, strict=False)]
            lines.append("  ".join([*cells, row[-1]]))
        if left:
            lines.append(f"and {counted(len(left), 'more kernel')}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        lines = {line: SourceLine(one.seconds, 0.0, one.nbytes) for line, one in self.lines.items()}
        return f"<p>{html.escape(self.summary)}</p>{source_tables(lines)}{show_table(self.rows())}"

    # -- files ------------------------------------------------------------------------------------

    def chrome_trace(self, path: str | Path) -> None:
        """Write a trace of devices and host threads for Perfetto and chrome://tracing.

        Perfetto is at https://ui.perfetto.dev.
        """
        events: list[dict[str, Any]] = []
        tracks: dict[tuple[str, str], dict[str, int]] = {}
        numbers: dict[str, int] = {}

        def track(process: str, thread: str) -> dict[str, int]:
            if process not in numbers:
                numbers[process] = len(numbers) + 1
                events.append(_named("process_name", {"pid": numbers[process], "tid": 0}, process))
            if (process, thread) not in tracks:
                tracks[process, thread] = {"pid": numbers[process], "tid": len(tracks) + 1}
                events.append(_named("thread_name", tracks[process, thread], thread))
            return tracks[process, thread]

        def bar(name: str, kind: str, begin: float, seconds: float, where: dict[str, int], **facts: Any) -> None:
            times = {"ts": round(begin * 1e6, 3), "dur": round(seconds * 1e6, 3)}
            events.append({"name": name, "cat": kind, "ph": "X", **times, **where, "args": facts})

        for one in self.launches:
            note = one.note
            facts = {"members": list(note.members), "bytes": note.nbytes, "location": note.location}
            if note.nbytes and one.seconds:
                facts["GB/s"] = round(note.nbytes / one.seconds / 1e9, 2)
            bar(describe(note), "kernel", one.begin, one.seconds, track(one.device, "kernels"), **facts)
            host = track("host", one.thread)
            bar(f"launch {note.name}", "launch", one.launched, one.launching, host, location=note.location)
        for made in self.compilations:
            where = track("host", made.thread)
            name = f"{made.note.stage} {made.note.name}"
            bar(name, made.note.stage, made.begin, made.seconds, where, target=made.note.target)
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))

    def roofline(self, path: str | Path) -> None:
        """Write a roofline plot of the kernels to a file, using matplotlib.

        The extension of the file name determines the format: ``.svg``, ``.png`` or ``.pdf``. If matplotlib is not
        installed, the method raises ImportError.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError("the roofline picture needs matplotlib: pip install 'weft[plot]'") from None
        figure = Figure(figsize=(7, 5))
        axes = figure.add_subplot()
        points = [k for k in self.kernels if k.note.nbytes and k.note.instructions and k.seconds]
        low = min((k.note.instructions / k.note.nbytes for k in points), default=0.1) / 4
        high = max((k.note.instructions / k.note.nbytes for k in points), default=10.0) * 4
        for device, rate in dict.fromkeys((k.device, k.bandwidth) for k in points):
            if rate:
                axes.plot([low, high], [low * rate / 1e9, high * rate / 1e9], label=f"memory of {device}")
        for k in points:
            speed = k.note.instructions * len(k.times) / k.seconds / 1e9
            axes.scatter(
                k.note.instructions / k.note.nbytes, speed, label=f"{describe(k.note)[:60]}: {show_seconds(k.seconds)}"
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("instructions a byte")
        axes.set_ylabel("billions of instructions a second")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="x-small")
        figure.savefig(path)


def _merge(group: list[KernelTime]) -> KernelTime:
    """Return the combined times of a group of kernels, with the mean bytes and instructions per launch."""
    count = sum(len(kernel.times) for kernel in group)

    def mean(name: str) -> int:
        return round(sum(getattr(kernel.note, name) * len(kernel.times) for kernel in group) / count)

    return KernelTime(
        group[0].note._replace(nbytes=mean("nbytes"), instructions=mean("instructions")),
        group[0].device,
        [seconds for kernel in group for seconds in kernel.times],
        [seconds for kernel in group for seconds in kernel.launching],
        sum({kernel.note.key: kernel.compiling for kernel in group}.values()),
        group[0].bandwidth,
    )


def _named(kind: str, where: dict[str, int], name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", **where, "args": {"name": name}}


def user_lines(note: LaunchNote) -> dict[tuple[str, int], float]:
    """Return the lines of user code that caused a launch, with each line's share of the work."""
    found = {(file, line): share for file, line, share in note.sources if not is_hidden(file)}
    whole = sum(found.values())
    return {line: share / whole for line, share in found.items()}


def describe(note: LaunchNote) -> str:
    """Return a kernel's name and its fused operations or source location in one line."""
    inside = ", ".join(note.members[:6]) + (f" and {len(note.members) - 6} more" if len(note.members) > 6 else "")
    return f"{note.name}: {inside}" if inside else f"{note.name} ({note.location})" if note.location else note.name


def profile() -> Profile:
    """Measure launches of kernels and other work (``with weft.profile() as p:``).

    ``print(p)`` shows the measurements.

    Returns
    -------
    Profile
        The profile. Its methods `chrome_trace` and `roofline` write the profile to files.

    Examples
    --------
    >>> with wf.profile() as p:
    ...     x = wf.evaluate(wf.ones(100_000) + 1)
    >>> p.seconds > 0
    True
    """
    return Profile()
