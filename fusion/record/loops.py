"""Detection of loops in the user's program.

In: the source lines of recorded operations, in order. Out: the head of the outermost loop among the operations, at
which recording is cut. Invariant: the head depends only on the sequence of call sites. A program that records the same
operations again is therefore cut at the same operations, and finds the same plans.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise, starmap
from operator import itemgetter
from types import CodeType
from typing import NamedTuple

from weft.fusion.graph.expr import Expr, Location

# A source line: file, function, first line of the function, line. It does not change when the code is recompiled. Byte
# code offsets are not used: a call to a function may have another offset after the interpreter has specialized it.
Site = tuple[str, str, int, int]

# By the id of a code object: the code object, the ranges of byte code of its lines, and the source lines of call sites.
_lines: dict[int, tuple[CodeType, list[tuple[int, int, int | None]], dict[int, Site]]] = {}
_LIMIT = 1000


def site_of(location: Location) -> Site:
    """Return the source line of a call site."""
    code, at = location[:2]
    known = _lines.get(id(code))
    if known is None or known[0] is not code:
        if len(_lines) >= _LIMIT:
            _lines.clear()
        known = _lines[id(code)] = code, list(code.co_lines()), {}
    _, ranges, sites = known
    if at not in sites:
        line = ranges[bisect_right(ranges, at, key=itemgetter(0)) - 1][2] or 0
        sites[at] = code.co_filename, code.co_name, code.co_firstlineno, line
    return sites[at]


def visits_of(recorded: Sequence[Expr | None]) -> list[Site | None]:
    """Return the source line of each expression that begins a visit (an execution of a line), and None for others."""
    found: list[Site | None] = []
    before: tuple[Location, Site] | None = None
    for node in recorded:
        location = _location(node)
        if node is None or location is None:
            found.append(None)
            continue
        here = location, site_of(location)
        # (an update has the location of the value that was recorded just before)
        same = node.location is None and before is not None and location == before[0]
        found.append(here[1] if not same and _begins_visit(here, before) else None)
        before = here
    return found


def _location(node: Expr | None) -> Location | None:
    while node is not None and node.location is None and node.operands:
        node = node.operands[-1]
    return None if node is None else node.location


def _begins_visit(here: tuple[Location, Site], before: tuple[Location, Site] | None) -> bool:
    """Return whether an operation starts a new execution of its source line.

    Otherwise, it belongs to the same execution as the previous operation.

    This is so if the previous operation is on another line, or if the program has jumped back within the line.
    """
    if before is None or here[1] != before[1]:
        return True
    # (memoized expressions refer to the code object of an earlier run if the program was compiled again)
    (code, at), (code_before, at_before) = here[0][:2], before[0][:2]
    return at <= at_before and (code is code_before or code == code_before)


def is_visit(location: Location, recorded: Sequence[Expr | None]) -> bool:
    """Return whether the operation at `location` begins a new visit (execution) of its source line. The list `recorded` holds earlier operations."""
    before = next((found for node in reversed(recorded) if (found := _location(node))), None)
    return _begins_visit((location, site_of(location)), None if before is None else (before, site_of(before)))


class VisitLoop(NamedTuple):
    """A loop in the user's program, found in the sequence of executed source lines."""

    head: Site  # the first line of an iteration that records an operation
    visits: list[int]  # positions of the visits to the head in the sequence
    length: int  # number of operations of the shortest iteration


def find_loop(sites: Sequence[Site | None]) -> VisitLoop | None:
    """Return the outermost loop in a sequence of source lines, or None if there is no loop.

    The lines of an inner loop are revisited sooner than those of the loop around it, so the distance between two visits
    identifies the outermost loop. A loop that ended earlier in the sequence is ignored.
    """
    found: dict[Site, list[int]] = {}
    for k, site in enumerate(sites):
        if site is not None:
            found.setdefault(site, []).append(k)
    best: VisitLoop | None = None
    for (
        site,
        positions,
    ) in found.items():  # (in the order of their first visits: a head comes before the other lines of its loop)
        if len(positions) < 2:
            continue
        length = min(after - before for before, after in pairwise(positions))
        if len(sites) - positions[-1] <= 2 * length and (best is None or length > best.length):
            best = VisitLoop(site, positions, length)
    return best


# Minimum number of iterations of an uneven loop. Shorter loops, for example over directions, are never treated as
# uneven.
MANY = 32


def is_uneven(loop: VisitLoop, recorded: Sequence[Expr | None], before: int) -> bool:
    """Return whether the last two iterations have the same operations but different array lengths.

    The result is False for few iterations. `before` is the number of operations in the sequence before those
    `recorded`.
    """
    if len(loop.visits) < MANY:
        return False
    first, second, third = (k - before for k in loop.visits[-3:])
    if first < 0 or third - second != second - first:
        return False
    pairs = zip(recorded[first:second], recorded[second:third], strict=True)
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    return all(starmap(_are_alike, known)) and any(starmap(_differ, known))


# Minimum number of elements that the operations of an iteration process, so that the overhead of evaluations is small.
LARGE = 1 << 17


def waits_for_number(loop: VisitLoop, recorded: Sequence[Expr | None], before: int) -> bool:
    """Return whether each iteration of a loop probably waits for a number, such as a sum over a whole array.

    This is assumed if the last iteration processes many elements and reduces an array to one number. Operations of different
    iterations are then not fused. The plan of a single iteration is as fast as the plan of many, and is compiled sooner.
    `before` is the number of operations in the sequence before those `recorded`.
    """
    first, last = (k - before for k in loop.visits[-2:])
    if first < 0:
        return False
    nodes = [node for node in recorded[first:last] if node is not None]
    reduced = any(node.kind == "reduce" and node.size == 1 and node.operands[0].size > 1 for node in nodes)
    return reduced and sum([max(node.size, *[each.size for each in node.operands], 0) for node in nodes]) >= LARGE


def _are_alike(one: Expr, other: Expr) -> bool:
    """Return whether two nodes have the same operation and the same number of operands."""
    return one.kind == other.kind and one.op == other.op and len(one.operands) == len(other.operands)


def _differ(one: Expr, other: Expr) -> bool:
    """Return whether two recorded calls of the same operation, such as two additions, differ in the shapes of their arrays."""
    if one.shape != other.shape or (one.kind == "update" and one.attrs[0] != other.attrs[0]):
        return True
    return any(a.shape != b.shape for a, b in zip(one.operands, other.operands, strict=True))
