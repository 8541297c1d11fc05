"""What a machine does with a schedule's groups once they are there: joins those that it runs better together."""

from __future__ import annotations

from weft.codegen import Target
from weft.fusion.plan.crossed import join_crossed
from weft.fusion.plan.schedule import Schedule
from weft.fusion.plan.time_steps import join_time_steps


def join_groups(schedule: Schedule, target: Target, *, special: bool = True) -> Schedule:
    """The schedule as it runs on a target. Where kernels are not `special`, a GPU leaves alone what is one for few sizes only: threads
    keep the columns of crossed folds in registers, which are counted when a kernel is compiled."""
    for_gpu = target.scheduled_for.kind == "cuda"
    schedule = join_time_steps(schedule, target)
    return join_crossed(schedule, for_gpu=for_gpu) if special or not for_gpu else schedule
