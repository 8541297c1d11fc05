"""Plans: sequences of kernels, allocations and other steps over a table of buffers.

`run/planning.py` creates plans, and `run/run_plan.py` runs them. `plan_cache.py` finds plans for other sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.fusion.explain.reports import shares_of_lines
from weft.fusion.graph.expr import Expr, Location
from weft.fusion.plan.arena import ArenaSlices, Donation
from weft.runtime import BufferRequests, Launch, LaunchNote, PreparedLaunches, kernel_number, show_location

if TYPE_CHECKING:
    from weft.fusion.plan.numpy_loops import NumpyLoop
    from weft.fusion.plan.schedule import Schedule

# Minimum bytes of a launch for which a faster schedule is worth a compilation, if the launch recurs.
LARGE = 16 << 20


@dataclass(slots=True, eq=False, repr=False)
class SizeSpecialization:
    """Permission to compile the kernels of a GPU plan for the exact sizes of the plan.

    `first` allows specialization for the first plan of a form, and `back` for large kernels of a plan that recurs.
    `made` counts the compiled kernels.
    """

    first: bool = True
    back: bool = False
    made: int = 0


class Shown:
    """Holder of the callback `plans`, which is called with the explanation of each new plan. The value None means that there is no callback."""

    plans: Callable[[Any], None] | None = None


class KernelFacts(NamedTuple):
    """A kernel's operations, number of instructions and source location, as profiles show them."""

    members: tuple[tuple[str, Location | None], ...]
    instructions: int
    location: Location | None

    def sources(self) -> tuple[tuple[str, int, float], ...]:
        """Return the user's source lines, each with its share of the kernel's instructions."""
        return shares_of_lines(self.members)


@dataclass(slots=True, eq=False, repr=False)
class KernelLaunch(Launch):
    """A plan step that launches a kernel, with facts about the kernel."""

    name: str
    digest: str  # key of the kernel's code in memory and on disk
    exact: bool  # whether the kernel is specialized for these sizes
    facts: Callable[[], KernelFacts]  # computes the facts when they are needed
    text: Callable[[], str] = str  # returns the kernel's text, which is empty if the plan was read from disk
    note: LaunchNote | None = None  # created when there are listeners
    # (argument, slot, count) of arguments that are streams of random numbers, with the slot of their words
    streams: list[tuple[int, int, int]] = field(default_factory=list)

    def describe(self) -> LaunchNote:
        """Return a description of the launch, to be passed to launch listeners."""
        facts = self.facts()
        members = [op + (f" ({show_location(where)})" if where is not None else "") for op, where in facts.members]
        location = show_location(facts.location) if facts.location is not None else ""
        work = facts.instructions * self.work
        key = kernel_number(self.digest)
        return LaunchNote(self.name, tuple(dict.fromkeys(members)), self.nbytes, work, location, key, facts.sources())


@dataclass(slots=True, eq=False, repr=False)
class Batch:
    """Kernels that the device launches in one call."""

    prepared: PreparedLaunches
    launches: list[KernelLaunch]
    nbytes: int


@dataclass(slots=True, eq=False, repr=False)
class HostCall:
    """A plan step that calls a host function, such as a user function or a NumPy function."""

    node: Expr
    out: int
    operands: list[tuple[int, Expr, bool]]  # slot, expression, whether it is a view of the value in the slot
    loop: NumpyLoop | None = None


Step = (
    KernelLaunch | Batch | BufferRequests | HostCall | Donation | ArenaSlices | tuple[int, int] | int
)  # (slot, nbytes) allocates memory; a slot alone is released


@dataclass(slots=True, eq=False, repr=False)
class Plan:
    """A sequence of steps that use a table of buffers. A slot is an index in this table: the recording's slots come first, then the plan's own."""

    steps: list[Step]
    table_size: int
    outputs: list[tuple[Expr, int]]
    schedule: Schedule | None  # None if the plan was recreated from a record
    slots: int  # number of slots of the epoch when the plan was created
    scalars: list[int]  # slots with scalars that kernels take as arguments
    counter: int | None = None  # slot of the completion counter of launches
    descriptors: tuple[int, int] | None = None  # slot and bytes of the look-back descriptors
    # (slot for an address, slot of the value whose host bytes the address points to)
    values: list[tuple[int, int]] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)  # slots whose small arrays must be in device memory
    # initial table entries after the epoch's slots: no buffers, and no started kernels
    blank: list[Any] = field(default_factory=list, init=False)
    asks_more: bool = field(default=False, init=False)  # whether a run also sets scalars, counters and so on
    program: list[Step] | None = field(default=None, init=False)  # the final steps, after the first run
    # the slots of the versions that were last requested (-1: none), and whether all are present
    handed: list[int] = field(default_factory=list, init=False)
    complete: bool = field(default=False, init=False)
    # the slots whose memory the expressions read, and the bytes of each
    leaves: list[int] = field(default_factory=list, init=False)
    leaf_sizes: list[int] = field(default_factory=list, init=False)
    patience: int = field(default=0, init=False)  # runs until kernels for the exact sizes are compiled; 0: never
    # the number of pending values of the last run, and its single operation (see `evaluate._find_alone`)
    alone: Any = field(default=None, init=False)


# (the scalar's own bytes, at the low end of a slot)
_BITS = {size: Struct(code).unpack for size, code in ((1, "B"), (2, "<H"), (4, "<I"), (8, "<q"))}


def pack_scalar(value: np.generic) -> int:
    """Return a 64-bit integer whose low bytes are the bits of a NumPy scalar."""
    found: int = _BITS[value.itemsize](value)[0]  # type: ignore[arg-type]
    return found
