"""What a machine does with a schedule's groups once they are there: joins those that it runs better together."""

from __future__ import annotations

from weft.codegen import Machine
from weft.fusion.plan.crossed import join_crossed
from weft.fusion.plan.schedule import Schedule
from weft.fusion.plan.time_steps import join_time_steps


def join_groups(schedule: Schedule, machine: Machine, *, special: bool = True) -> Schedule:
    """The schedule as it runs on a machine. Where kernels are not `special`, a GPU leaves alone what is one for few sizes only: threads
    keep the columns of crossed folds in registers, which are counted when a kernel is compiled."""
    schedule = join_time_steps(schedule, machine)
    return join_crossed(schedule, machine) if special or not machine.is_gpu else schedule
