"""Reasons why a program is not faster on weft than under NumPy."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any

from weft.dsl.arrays.array import Array
from weft.dsl.cli.advice import SMALL, name_package, remedy_for
from weft.dsl.cli.line_sampler import LineSampler
from weft.dsl.immediate import at_call
from weft.dsl.script.redirect import is_program
from weft.dsl.tracebacks import is_hidden
from weft.runtime import setting, show_file

if TYPE_CHECKING:
    from weft.dsl.cli.compare import Outcome

# The functions that evaluate pending arrays because their elements are needed on the host.
_READING: tuple[tuple[Any, str], ...] = (
    (Array, "numpy"),
    (Array, "_number"),
    (at_call, "evaluate"),
    (at_call, "realise"),
)
_OFTEN = 10  # minimum number of reads at a line that are reported as a reason
_MUCH = 0.1  # minimum fraction of the host time at a line that is named
_SHORT = 0.02  # seconds; a shorter program has little to gain


def explain_speed(run: Callable[[], Any], counts: Outcome, numpy_seconds: float) -> list[str]:
    """Return sentences that explain why a program is not faster on weft than under NumPy.

    `counts` is the outcome of a warm run. `run` runs the program once more, to count its reads of array values.
    """
    if not counts.kernels:
        most = setting("immediate")
        small = f"arrays have at most {most:,} elements, and weft calls NumPy for such arrays"
        return [f"no kernel ran: the {small}, or the program calls only library functions"]
    with count_reads() as reads, LineSampler() as sampler:
        run()
    reasons = []
    if not counts.settled:
        reasons.append("the measured run still made plans or interpreted the program; later runs take less time")
    large = counts.bytes >= SMALL * counts.kernels
    if not large:
        elements = counts.bytes // (16 * counts.kernels)
        reasons.append(
            f"each kernel processes only about {max(elements, 1):,} elements, and NumPy is as fast for so few elements"
        )
    for (file, line), number in reads.most_common(3):
        if number >= _OFTEN:
            reasons.append(
                f"values are read {number:,} times at {show_file(file)}:{line}, and later operations cannot be fused across a read"
            )
    share = counts.outside / counts.seconds
    if share > 0.5:
        reasons.append(f"{100 * share:.0f} % of the time is spent outside of kernels{_explain_host(sampler, large)}")
    if numpy_seconds < _SHORT:
        reasons.append(f"NumPy's whole run takes only {1e3 * numpy_seconds:.3g} ms, so there is little to gain")
    in_kernels = counts.seconds - counts.outside
    figures = f"{1e3 * in_kernels:.3g} ms in kernels and library functions, and NumPy's whole run {1e3 * numpy_seconds:.3g} ms"
    return reasons or [f"the run spends {figures}"]


def _explain_host(sampler: LineSampler, large: bool) -> str:
    """Return a text that describes the source lines that spend the most time on the host, with advice.

    The text completes the caller's sentence.

    `large` states that the kernels process large arrays.
    """
    whole = sum(sampler.seconds.values())
    slowest = sorted(sampler.seconds.items(), key=lambda item: -item[1])[:3]
    lines = [
        f"{show_file(file)}:{line} ({seconds / whole:.0%})"
        for (file, line), seconds in slowest
        if seconds >= _MUCH * whole
    ]
    packages: Counter[str] = Counter()
    for one in sampler.packages.values():
        packages.update(one)  # type: ignore[arg-type]
    if not lines:
        return ": in Python, in libraries, or in NumPy itself"
    package = max(packages, key=packages.__getitem__)
    remedy = remedy_for(package, large)
    return f", mostly in {name_package(package)}, at {', '.join(lines)}{': ' if remedy else ''}{remedy}"


@contextlib.contextmanager
def count_reads() -> Iterator[Counter[tuple[str, int]]]:
    """Within a ``with`` block, count how often each line of the program reads values of pending arrays."""
    reads: Counter[tuple[str, int]] = Counter()

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def read(value: Any, *arguments: Any, **options: Any) -> Any:
            if _is_pending(value):
                frame: FrameType | None = sys._getframe(1)
                while frame is not None and is_hidden(frame.f_code.co_filename):
                    frame = frame.f_back
                if frame is not None and is_program(frame):
                    reads[frame.f_code.co_filename, frame.f_lineno] += 1
            return method(value, *arguments, **options)

        return read

    before = [(owner, name, vars(owner)[name]) for owner, name in _READING]
    for owner, name, method in before:
        setattr(owner, name, counted(method))
    try:
        yield reads
    finally:
        for owner, name, method in before:
            setattr(owner, name, method)


def _is_pending(value: Any) -> bool:
    """Return whether reading an array, a storage or a list of storages may evaluate pending operations."""
    if isinstance(value, list):
        return any(storage.buffer is None for storage in value)
    return value._device is None if hasattr(value, "_device") else value.buffer is None
