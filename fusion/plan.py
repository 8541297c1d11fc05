"""Plans: what evaluating a program takes, step by step, over a table of buffers.

`execute.py` makes and runs them; `resized.py` finds them for other sizes and positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.fusion.arena import Carve, Take
from weft.fusion.expr import Expr
from weft.fusion.group import Group
from weft.fusion.kernel_writer import Lowered
from weft.fusion.numpy_loops import NumpyLoop
from weft.fusion.schedule import Schedule
from weft.runtime import LaunchNote, Requests
from weft.runtime.launches import Launch, Prepared


@dataclass(slots=True)
class KernelLaunch(Launch):
    """One kernel launch, and what it was made of."""

    lowered: Lowered
    group: Group
    note: LaunchNote | None = None  # made when somebody listens


@dataclass(slots=True)
class Batch:
    """Kernels that the device starts by one call."""

    prepared: Prepared
    launches: list[KernelLaunch]
    nbytes: int


@dataclass(slots=True)
class Call:
    """One host call: of an opaque expression's function, or of NumPy's loop for a lone operation."""

    node: Expr
    out: int
    operands: list[tuple[int, Expr, bool]]  # place, expression, whether it is a view of what lies there
    loop: NumpyLoop | None = None


Step = (
    KernelLaunch | Batch | Requests | Call | Take | Carve | tuple[int, int] | int
)  # (place, nbytes) allocates; a place alone is given up


@dataclass(slots=True)
class Plan:
    """Steps over a table of buffers: the epoch's slots first, then what the plan makes."""

    steps: list[Step]
    places: int
    outputs: list[tuple[Expr, int]]
    schedule: Schedule
    slots: int  # of the epoch, when the plan was made
    scalars: list[int]  # slots that hold numbers which kernels take
    overwrites: bool  # memory that was there before it
    ticket: int | None = None  # place of what blocks of a launch count in
    board: tuple[int, int] | None = None  # place and bytes of what they leave notes on
    # the table behind the slots, as a run begins: nothing is there, no kernel of the step was started
    blank: list[Any] = field(default_factory=list, init=False)
    asks_more: bool = field(default=False, init=False)  # than memory
    program: list[Step] | None = field(default=None, init=False)  # the steps as they are run, once they were
    # where the table holds each version that was asked about in the end (-1: nowhere), and whether it holds all of them
    handed: list[int] = field(default_factory=list, init=False)
    complete: bool = field(default=False, init=False)
    # the slots whose memory the expressions read, and how many bytes each has to have
    leaves: list[int] = field(default_factory=list, init=False)
    leaf_sizes: list[int] = field(default_factory=list, init=False)
    patience: int = field(default=0, init=False)  # runs until kernels for its sizes alone are compiled; 0: never

    def __post_init__(self) -> None:
        self.blank = [None] * (self.places - self.slots) + [0]
        self.asks_more = bool(self.scalars) or self.ticket is not None or self.board is not None
