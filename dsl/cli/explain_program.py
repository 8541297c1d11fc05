"""The command ``weft explain``, which writes a page about a script's source lines, plans and kernels.

The script runs twice in this process. The first run compiles its kernels and collects its plans. The second run is
measured.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.dsl.cli.compare import execute
from weft.dsl.cli.line_sampler import Line, LineSampler
from weft.dsl.cli.main_program import MainProgram
from weft.dsl.cli.program_page import program_page
from weft.dsl.cli.reasons import count_reads
from weft.dsl.profile import KernelTime, Profile
from weft.dsl.script.redirect import isolated
from weft.fusion import reset_statistics, show_plans, statistics
from weft.runtime import LaunchNote, override

if TYPE_CHECKING:
    from weft.fusion import Explanation


@dataclass
class ShownPlan:
    """A plan on the page of ``weft explain``. The page identifies each kernel of the plan by its number in `numbers`.

    `seconds` is the total time of the kernels that no slower plan contains.
    """

    plan: Explanation
    numbers: list[int]
    seconds: float


@dataclass
class Measured:
    """Measurements of a user's program, for the page of ``weft explain``.

    Attributes
    ----------
    program : MainProgram
    first : float
        Seconds of the first run.
    compilations : int
        Number of kernels that the first run compiled because they were not in the disk cache.
    profile : Profile
        The profile of the second run.
    host : dict
        Seconds on the host by line.
    packages : dict of dict
        Seconds on the host by line and package.
    reads : Counter
        Number of reads of the values of pending arrays, by line.
    widened : set of Line
        Lines at which float32 becomes float64.
    plans : list of ShownPlan
        Plans in order of decreasing time.
    numbers : dict
        The number of each kernel on the page, by device and note.
    """

    program: MainProgram
    first: float
    compilations: int
    profile: Profile
    host: dict[Line, float]
    packages: dict[Line, dict[str, float]]
    reads: Counter[Line]
    widened: set[Line] = field(default_factory=set)
    plans: list[ShownPlan] = field(default_factory=list)
    numbers: dict[tuple[str, LaunchNote], int] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The file name that the main program's code objects contain."""
        return {"-c": "<string>", "-m": ""}.get(self.program.option, str(Path(self.program.text).absolute()))


def explain_program(program: MainProgram, output: str) -> int:
    """Run a program, write the page of ``weft explain``, and return the exit status.

    The status is 1 if the program failed, and 2 if the program is standard input.
    """
    if program.option == "-":
        print(
            "weft explain: the program is run twice, so the program cannot be read from standard input", file=sys.stderr
        )
        return 2
    measured = measure(program)
    if measured is None:
        return 1
    path = Path(output or f"{Path(program.text).stem if not program.option else 'program'}-weft.html")
    path.write_text(program_page(measured), encoding="utf-8")
    print(f"weft explain: {path.resolve()}", file=sys.stderr)
    return 0


def measure(program: MainProgram) -> Measured | None:
    """Run a program twice, and return the measurements of both runs, or None if the program failed."""
    plans: list[Explanation] = []
    with override(interpret="never"):
        show_plans(plans.append)
        try:
            reset_statistics()
            begin = time.perf_counter()
            with count_reads() as reads, isolated(program.folder, True), contextlib.redirect_stdout(io.StringIO()):
                status = _execute_and_end(program)
            first, compilations = time.perf_counter() - begin, statistics()["compilations"]
        finally:
            show_plans(None)
        if status:
            return None
        with isolated(program.folder, True), Profile() as profile, LineSampler() as sampler:
            status = _execute_and_end(program)
    if status:
        return None
    found = Measured(program, first, compilations, profile, dict(sampler.seconds), dict(sampler.packages), reads)
    found.widened = {line for plan in plans for note in plan.kernels for line in note.widened}
    _number_kernels(found, plans)
    return found


def _execute_and_end(program: MainProgram) -> int:
    """Execute a program, delete its global variables, and return its exit status.

    The deletion has the effect that unused results are never computed.
    """
    status, _ = execute(program)
    sys.modules["__main__"].__dict__.clear()
    return status


def _number_kernels(found: Measured, plans: list[Explanation]) -> None:
    """Assign numbers to the kernels that ran, beginning with the slowest plan's kernels. Also list the plans that ran."""
    times: dict[Any, list[KernelTime]] = {}
    for kernel in found.profile.kernels:
        times.setdefault(_key_of_launch(kernel), []).append(kernel)
    keys = {id(plan): [_key_of_note(note) for note in plan.kernels] for plan in plans}
    ran = [(sum(k.seconds for key in {*keys[id(plan)]} for k in times.get(key, ())), plan) for plan in plans]
    numbers: dict[Any, int] = {}
    for _, plan in sorted(ran, key=lambda item: -item[0]):
        new = [key for key in dict.fromkeys(keys[id(plan)]) if key in times and key not in numbers]
        if new:
            for key in keys[id(plan)]:
                numbers.setdefault(key, len(numbers) + 1)
            seconds = sum(kernel.seconds for key in new for kernel in times[key])
            found.plans.append(ShownPlan(plan, [numbers[key] for key in keys[id(plan)]], seconds))
    found.plans.sort(key=lambda plan: -plan.seconds)
    for key, group in times.items():
        number = numbers.setdefault(key, len(numbers) + 1)
        found.numbers.update({(kernel.device, kernel.note): number for kernel in group})


def _key_of_launch(kernel: KernelTime) -> Any:
    note = kernel.note
    return note.members or (f"{note.name.removeprefix('call ')} ({note.location})",)


def _key_of_note(note: Any) -> Any:
    """Return the names of a kernel's operations, as the key that identifies the kernel's launches."""
    return tuple(member.removeprefix("reduce ") for member in note.members) if note.call else note.members
