"""Call sites at which NumPy is faster than recording and evaluating the operation.

In: the values that an evaluation computed. Out: whether the next operation at a call site should be executed
immediately. Arrays that are larger than the limit of immediate execution are recorded, because operations on them
usually fuse. If only a few operations were evaluated together, recording them did not pay off.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.codegen import OPS
from weft.fusion.graph.expr import Expr, Location, is_draw, topological
from weft.runtime import IMMEDIATE

Site = tuple[int, int]  # the id of a code object, and an offset in it

# Call sites at which the value was the first of an evaluation without other values, and call sites whose operations
# NumPy executes in less time than an evaluation takes. Each has the number of calls after which fusion is tried again.
# Native recorders leave calls at these sites to Python.
ALONE: dict[Site, int] = {}
CHEAP: dict[Site, int] = {}
LIMIT, CALLS = 4096, 32

# Factor by which arrays may exceed the limit of immediate execution.
MEDIUM = 8
# Maximum number of operations, and maximum seconds in which NumPy executes them. An evaluation takes longer.
_MOST, _SECONDS = 4, 50e-6
# Estimated seconds that NumPy takes for an operation, for a byte, and for a unit of an op's cost. (Random numbers are
# drawn by the same code in both cases.)
_CALL, _BYTE, _COST = 1e-6, 1 / 90e9, 0.13e-9
_FREE = frozenset({"constant", "leaf", "scalar", "view"})


def find_cheap(device: str, versions: list[Expr]) -> tuple[Site, ...]:
    """Return the call sites of an evaluation's operations if NumPy would execute them faster, otherwise ()."""
    most = MEDIUM * IMMEDIATE[0]
    if device != "cpu" or any(version.size > most for version in versions):
        return ()
    sites, count, seconds = list[Site](), 0, 0.0
    for node in topological(versions):
        if node.kind in _FREE:
            continue
        drawn = is_draw(node)
        if node.kind not in ("map", "reduce") and not drawn:
            return ()
        count += 1
        if count > _MOST or node.size > most:
            return ()
        if node.location is not None:
            sites.append((id(node.location[0]), node.location[1]))
        if not drawn:
            moved = node.nbytes + sum([operand.nbytes for operand in node.operands])
            cost = OPS[node.op].cost if node.op in OPS else 1
            seconds += _CALL + _BYTE * moved + _COST * (cost - 1) * node.size
    return tuple(sites) if seconds < _SECONDS else ()


def note_cheap(sites: Iterable[Site]) -> None:
    """Record call sites, so that NumPy executes their next operations immediately."""
    for site in sites:
        _note(CHEAP, site)


def is_cheap(where: Location) -> bool:
    """Return whether NumPy executes the operation at a call site in less time than an evaluation takes.

    The result expires after some calls, so that fusion is tried again.
    """
    return _count_down(CHEAP, where)


def note_alone(site: Site) -> None:
    """Record that an evaluation computed only the value of the call site `site`."""
    _note(ALONE, site)


def was_evaluated_alone(where: Location) -> bool:
    """Return whether the last evaluation of a value from the call site `where` computed only this value.

    The result expires after some calls, so that fusion is tried again.
    """
    return _count_down(ALONE, where)


def _note(sites: dict[Site, int], site: Site) -> None:
    if len(sites) >= LIMIT:
        sites.clear()
    sites[site] = CALLS


def _count_down(sites: dict[Site, int], where: Location) -> bool:
    site = id(where[0]), where[1]
    left = sites.pop(site, 0)
    if left > 1:
        sites[site] = left - 1
    return left > 0
