"""Horizontal fusion: the kernels of an evaluation also compute other pending values, if these cost almost nothing.

In: the live versions of an epoch, and the requested ones. Out: the `Schedule` of the requested versions and of other
live values that cost little. These are intermediate values, values computed from arrays that the evaluation updates,
and small reductions of values that the same kernels read or compute. Invariant: an added reduction reads no additional
memory, needs no additional kernel, and is small compared with its input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from weft.codegen import Machine
from weft.fusion.graph.expr import Expr, is_draw, topological
from weft.fusion.plan.schedule import Schedule, make_schedule

# Minimum number of input bytes per byte of an added reduction; maximum number of versions that are examined.
SMALL = 16
MOST = 32

FOLLOWED = frozenset({"map", "view", "constant", "scalar", "iota", "reduce"})
CONTINUED = FOLLOWED - {"reduce"} | {"update"}


def schedule_versions(
    versions: Sequence[Expr], roots: Sequence[Expr], origins: Mapping[Expr, Expr], machine: Machine
) -> Schedule:
    """Return a schedule that evaluates the requested values in `roots`. It also evaluates other pending values if they add almost no cost.

    `versions` are the live values, and `origins` is `LiveGraph.origins`.
    """
    schedule = partial(make_schedule, origins=origins, machine=machine)
    order = topological(roots)
    needed = set(order)
    outputs = list(dict.fromkeys([*roots, *(v for v in versions if v in needed and not is_draw(v))]))
    rest = [v for v in dict.fromkeys(versions) if v not in needed]
    going_on = _continuing_versions(rest, needed)
    if going_on:
        outputs += going_on
        needed.update(topological(going_on))
        rest = _without(rest, going_on)
    found = _candidates(rest, needed)
    if found:
        alone = _computed_in_separate_kernels(schedule([*outputs, *found], _without(rest, found)), needed)
        chosen = [version for version, own in found.items() if alone.isdisjoint(own)]
        if chosen:
            together = schedule([*outputs, *chosen], _without(rest, chosen))
            if not _computed_in_separate_kernels(together, needed):
                return together
    return schedule(outputs, rest)


def _continuing_versions(versions: list[Expr], needed: set[Expr]) -> list[Expr]:
    """Select pending values that depend on arrays that this evaluation updates, so that this evaluation also computes these values.

    If they were evaluated later, the updated memory might have to be copied. They at most double the total bytes of the evaluation's values.
    """
    updated = {node for node in needed if node.kind == "update" and node.operands[0].kind != "empty"}
    room = sum(node.nbytes for node in needed)
    found: list[Expr] = []
    for version in versions[:MOST] if updated else ():
        own: list[Expr] = []
        follows = False
        for node in topological([version], lambda n: n in needed or n.kind not in CONTINUED):
            if node in needed:
                follows = follows or node in updated
            elif node.kind in CONTINUED:
                own.append(node)
            elif node.kind != "leaf":
                break
        else:
            room -= sum(node.nbytes for node in own)
            if follows and room >= 0:
                found.append(version)
    return found


def _without(versions: list[Expr], taken: dict[Expr, list[Expr]] | list[Expr]) -> list[Expr]:
    return [v for v in versions if v not in taken]


def _candidates(versions: list[Expr], needed: set[Expr]) -> dict[Expr, list[Expr]]:
    """Return the pending values that are small reductions of needed values.

    Each is mapped to the nodes that it needs in addition to `needed`. Only the first `MOST` pending values in `versions` are examined.
    """
    found: dict[Expr, list[Expr]] = {}
    for version in versions[: MOST if needed else 0]:
        own: list[Expr] = []
        read = 0
        for node in topological([version], lambda n: n in needed or n.kind not in FOLLOWED):
            if node in needed:
                read += node.nbytes
            elif node.kind in FOLLOWED:
                own.append(node)
            else:
                break
        else:
            if any(node.kind == "reduce" for node in own) and version.nbytes * SMALL <= read:
                found[version] = own
    return found


def _computed_in_separate_kernels(schedule: Schedule, needed: set[Expr]) -> set[Expr]:
    """Find the kernels in `schedule` that compute none of the values in `needed`. Return all values that these kernels compute."""
    tasks = [[p.task.node for p in group.placed] for group in schedule.groups]
    return {node for nodes in tasks if needed.isdisjoint(nodes) for node in nodes}
