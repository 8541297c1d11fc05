"""Merging of the groups of a schedule into fewer kernels."""

from __future__ import annotations

from weft.codegen import Machine
from weft.fusion.plan.row_column_reductions import merge_rows_and_columns
from weft.fusion.plan.schedule import Schedule
from weft.fusion.plan.time_steps import merge_time_steps


def merge_groups(schedule: Schedule, machine: Machine, *, special: bool = True) -> Schedule:
    """Return a schedule with merged time steps, and with merged row and column reductions.

    On a GPU, the register use of a merged row and column reduction depends on the sizes. Such reductions are therefore
    merged only if kernels may be specialized for the sizes (`special`).
    """
    schedule = merge_time_steps(schedule, machine)
    return merge_rows_and_columns(schedule, machine) if special or not machine.is_gpu else schedule
