"""Advice on the slow lines of a program: why a line is slow and how to make it faster.

In: the measurements of ``weft explain``. Out: sentences by line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.dsl.cli.line_sampler import UNLOCATED
from weft.dsl.profile import LineTime
from weft.fusion import show_seconds

if TYPE_CHECKING:
    from weft.dsl.cli.explain_program import Measured
    from weft.dsl.cli.line_sampler import Line

OFTEN = 10  # minimum number of reads, or of launches of short kernels, at a line that are reported
SMALL = 256 << 10  # bytes per kernel; below this value, launches take longer than kernels
SHORT = 30e-6  # mean seconds of a kernel; a shorter kernel takes no longer than its launch
SHOWN = 6  # maximum number of lines
FROM = 0.02  # minimum fraction of the run's time for which a line without a mistake is shown
FULL = 0.5  # minimum fraction of the copy bandwidth at which a kernel is limited by memory
FROM_MEMORY = 1.2  # ... and the maximum, above which the kernel's data is in the cache
WRITERS = ("numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt")  # these read values in any case
DENSE = 2  # minimum instructions per byte at which a kernel is limited by arithmetic


@dataclass(frozen=True)
class Advice:
    """A slow line of the user's program, with its time and advice in sentences."""

    line: Line
    seconds: float
    sentences: tuple[str, ...]


def advise(measured: Measured) -> list[Advice]:
    """Return the slow lines of a program with advice, slowest first, but at most `SHOWN` lines.

    Fast lines are included if they have an avoidable cost, such as reading values or widening float32.
    """
    lines = measured.profile.lines
    seconds = dict(measured.host)
    for line, one in lines.items():
        seconds[line] = seconds.get(line, 0.0) + one.seconds
    whole = sum(seconds.values()) or 1.0
    found = []
    for line in {**seconds, **dict.fromkeys(measured.reads), **dict.fromkeys(measured.widened)}:
        own = seconds.get(line, 0.0)
        one = lines.get(line, LineTime())
        mistakes = _mistakes(measured, line) + _host_calls(one, FROM * whole)
        if mistakes or own >= FROM * whole:
            found.append(Advice(line, own, (*mistakes, *_limits(measured, line, one))))
    return sorted(found, key=lambda one: -one.seconds)[:SHOWN]


def _mistakes(measured: Measured, line: Line) -> list[str]:
    """Return sentences about avoidable costs of a line, such as casts to float64."""
    found = []
    if (reads := measured.reads[line]) >= OFTEN:
        found.append(
            f"This line reads a value {reads:,} times. Each read evaluates the pending operations, so later operations "
            "cannot be fused with the pending operations. Keep the value in an array, or read the value less often."
        )
    if line in measured.widened:
        found.append(
            "On this line, float32 values become float64, because the other operand is float64. The results occupy twice as much "
            "memory as float32 results. Create the other operand with dtype=np.float32."
        )
    return found


def _host_calls(one: LineTime, least: float) -> list[str]:
    """Return a message for each NumPy function that a line executes on the host for at least `least` seconds."""
    found = []
    for kernel in one.kernels:
        name = kernel.note.name.removesuffix(" on the host")
        if name != kernel.note.name and name not in WRITERS and kernel.seconds >= least:
            found.append(
                f"weft has no kernel for {name}. NumPy executes the function on the host ({show_seconds(kernel.seconds)}), "
                "so the function is not fused with other operations."
            )
    return found


def _limits(measured: Measured, line: Line, one: LineTime) -> list[str]:
    """Return sentences about a line's bottleneck, or [] if there is nothing to report."""
    host = measured.host.get(line, 0.0)
    own = [kernel for kernel in one.kernels if not kernel.note.name.endswith(" on the host")]
    launches = sum(len(kernel.times) for kernel in own)
    if host > one.seconds:
        packages = measured.packages.get(line)
        package = max(packages, key=packages.__getitem__) if packages else ""
        outside = "outside of this line's kernels" if package == UNLOCATED else "on the host outside of kernels"
        found = [f"This line spends {show_seconds(host)} {outside}, mostly in {name_package(package)}."]
        mean = sum(kernel.seconds for kernel in own) / max(launches, 1)
        if launches >= OFTEN and mean < SHORT:
            found.append(
                f"Each kernel runs for about {show_seconds(mean)}, which is about as long as its launch takes."
            )
        large = sum(kernel.note.nbytes * len(kernel.times) for kernel in own) >= SMALL * launches > 0
        if remedy := remedy_for(package, large):
            found.append(f"{remedy[0].upper()}{remedy[1:]}.")
        return found
    longest = max(own, key=lambda kernel: kernel.seconds, default=None)
    if longest is None or not longest.note.nbytes:
        return []
    if longest.share is not None and FULL <= longest.share <= FROM_MEMORY:
        return [
            f"The line's kernel is limited by memory bandwidth: it reaches {longest.share:.0%} of the speed of a copy. "
            "To make the kernel faster, use narrower dtypes, or arrays that fit in the cache."
        ]
    if longest.note.instructions > DENSE * longest.note.nbytes:
        return [
            f"The line's kernel is limited by arithmetic: it executes about {longest.note.instructions / longest.note.nbytes:.0f} "
            "instructions per byte. To make the kernel faster, use fewer operations, or float32."
        ]
    name = longest.note.name.removeprefix("call ")
    return [f"The line spends most of its time in the library function {name}."] if name != longest.note.name else []


def name_package(package: str) -> str:
    """Return the name of a package for messages about host time. The package "" is the user's Python code."""
    return {"": "Python", "weft": "weft's recording and planning"}.get(package, package)


def remedy_for(package: str, large: bool = False) -> str:
    """Return advice for a line that spends its time in the code of `package`, or "" if there is no advice.

    `large` states that the kernels already process large arrays.
    """
    if package == "":
        return "replace Python loops with array operations, or write a kernel"
    if package == "weft":
        return "" if large else "use larger arrays, or fewer array operations in Python loops"
    return "" if package == UNLOCATED else f"weft does not make the code of {package} faster"
