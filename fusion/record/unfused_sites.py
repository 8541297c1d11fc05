"""Call sites whose results were evaluated without other operations.

In: the call sites of evaluated values. Out: whether the last evaluation of a value from a call site computed only this
value. Recording a copy does not pay off at such a call site.
"""

from __future__ import annotations

from weft.fusion.graph.expr import Location

Site = tuple[int, int]  # the id of a code object, and an offset in it

# Call sites at which the value was the first of an evaluation without other values. Each has the number of calls after
# which fusion is tried again. Native recorders leave calls at these sites to Python.
ALONE: dict[Site, int] = {}
LIMIT, CALLS = 4096, 32


def note_alone(site: Site) -> None:
    """Record that the last evaluation for the call site `site` computed only that call's value."""
    if len(ALONE) >= LIMIT:
        ALONE.clear()
    ALONE[site] = CALLS


def was_evaluated_alone(where: Location) -> bool:
    """Return whether the last evaluation of a value from the call site `where` computed only this value.

    The result expires after some calls, so that fusion is tried again.
    """
    site = id(where[0]), where[1]
    left = ALONE.pop(site, 0)
    if left > 1:
        ALONE[site] = left - 1
    return left > 0
