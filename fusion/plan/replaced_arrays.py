"""Arrays whose elements are all replaced by a sequence of updates.

In: a live graph. Out: an equivalent graph in which such a sequence begins with new memory, and its values read the old
array. Example: ``for k in range(9): f[k] = np.roll(f[k], k)`` then needs one kernel. In the memory of the old array,
each update would need a kernel that computes the value, and a kernel that copies it. Invariant: a sequence is changed
only if every read of an intermediate version is a view of elements that one update assigns, or that no update before
the read assigns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from weft.fusion.graph.expr import Expr, contiguous_strides, empty, update, view
from weft.fusion.graph.index_map import decode_view
from weft.fusion.plan.live_graph import LiveGraph, with_operands

# Maximum number of different parts of an array, which are compared with each other.
MOST = 64


class Window(NamedTuple):
    """The rectangular part (box) of an array that an update assigns.

    For each dimension of the base, the window has the first and the last index, the axis of the value along this
    dimension (-1: none), and the step along that axis (1 or -1).
    """

    first: tuple[int, ...]
    last: tuple[int, ...]
    axis: tuple[int, ...]
    step: tuple[int, ...]

    def is_disjoint(self, first: Sequence[int], last: Sequence[int]) -> bool:
        """Return whether this box and a second box have no array element in common. `first` and `last` are the second box's opposite corners."""
        boxes = zip(self.first, self.last, first, last, strict=True)
        return any(end < low or high < start for start, end, low, high in boxes)

    def contains(self, first: Sequence[int], last: Sequence[int]) -> bool:
        """Return whether a second box lies entirely inside of this box. `first` and `last` are the second box's opposite corners."""
        boxes = zip(self.first, self.last, first, last, strict=True)
        return all(start <= low and high <= end for start, end, low, high in boxes)


def window_of(update: Expr) -> Window | None:
    """Return the part of an array that an update overwrites, if this part is a box such as ``a[1:5, 2:4]``. Otherwise, return None."""
    shape, strides, offset = update.attrs
    decoded = decode_view(update.shape, shape, strides, offset)
    if decoded is None or any(len(terms) > 1 or any(s not in (1, -1) for _, s in terms) for _, terms in decoded):
        return None
    first, last, axis, step = [], [], [], []
    for start, terms in decoded:
        (along, by) = terms[0] if terms else (-1, 1)
        end = start + by * (shape[along] - 1) if terms else start
        first.append(min(start, end))
        last.append(max(start, end))
        axis.append(along)
        step.append(by)
    return Window(tuple(first), tuple(last), tuple(axis), tuple(step))


def replace_arrays(graph: LiveGraph, order: Sequence[Expr]) -> LiveGraph:
    """Return an equivalent graph in which updates that replace a whole array write to new memory.

    `order` contains the nodes of the graph in topological order.
    """
    kept = {*graph.versions, *graph.origins.values()}
    users: dict[Expr, list[Expr]] = {}
    for node in order:
        for child in node.operands:
            users.setdefault(child, []).append(node)
    following = {node: _following(node, users, kept) for node in order if node.kind == "update"}
    sources: dict[Expr, Source] = {}  # view of an intermediate version -> what it reads instead
    replaced: dict[Expr, list[Expr]] = {}  # last update of a sequence -> the sequence
    for first in following:
        sequence = _sequence(first, following) if following.get(first.operands[0]) is not first else []
        views = _resolve(sequence, users, order) if sequence else None
        if views is not None:
            sources |= views
            replaced[sequence[-1]] = sequence
    return _rewritten(graph, order, sources, replaced) if replaced else graph


Source = tuple[Expr, tuple[int, ...], int]  # the value that a view reads, with strides and offset


def _following(node: Expr, users: Mapping[Expr, list[Expr]], kept: set[Expr]) -> Expr | None:
    """Return the only update that overwrites the array `node`. Return None if there is no such update, or if anything else except views uses the array."""
    updates = [user for user in users.get(node, ()) if user.kind != "view"]
    if len(updates) != 1 or updates[0].kind != "update" or updates[0].operands[0] is not node or node in kept:
        return None
    return updates[0] if updates[0].operands[1] is not node else None


def _sequence(first: Expr, following: Mapping[Expr, Expr | None]) -> list[Expr]:
    """Find consecutive updates, beginning with `first`, that together assign every element of an array. Return [] if there are none."""
    sequence: list[Expr] = []
    windows: dict[object, Window] = {}
    written = 0
    node: Expr | None = first
    while node is not None:
        if node.attrs not in windows:
            if written == first.size:
                break
            window = window_of(node)
            if (
                window is None
                or len(windows) == MOST
                or any(not window.is_disjoint(w.first, w.last) for w in windows.values())
            ):
                return []
            windows[node.attrs] = window
            written += prod(node.attrs[0])
        sequence.append(node)
        node = following[node]
    return sequence if written == first.size else []


def _resolve(
    sequence: list[Expr], users: Mapping[Expr, list[Expr]], order: Sequence[Expr]
) -> dict[Expr, Source] | None:
    """Find the value that provides the elements of each view of a partly updated array. Return a dict from views to values.

    Return None if the sequence of updates is kept. It is kept if the elements of such a view have no single source, or if the
    sequence already begins with new memory and has no such view. It is also kept if each update replaces elements of an
    input by a function of these elements alone, because such an update needs no memory besides that of the input.
    """
    base = sequence[0].operands[0]
    sources: dict[Expr, Source] = {}
    for k, version in enumerate(sequence[:-1]):
        for user in users[version]:
            if user.kind == "view":
                found = _source(user, sequence[: k + 1])
                if found is None:
                    return None
                sources[user] = found
    if base.kind != "leaf":
        return sources if sources or base.kind != "empty" else None
    depending = {base}
    for node in order:
        if not depending.isdisjoint(node.operands) or (node in sources and sources[node][0] in depending):
            depending.add(node)
    return sources if any(_moves(each, base, sources, depending) for each in sequence) else None


def _source(node: Expr, updates: Sequence[Expr]) -> Source | None:
    """Return where a view's elements come from after updates of the array: one assigned value or the old array. Return None if there are several sources."""
    shape, base = node.shape, updates[0].shape
    decoded = decode_view(base, shape, *node.attrs)
    if decoded is None:
        return None
    ends = [[start, *(start + jump * (shape[axis] - 1) for axis, jump in terms)] for start, terms in decoded]
    low = [start + sum(min(0, end - start) for end in all_ends) for start, *all_ends in ends]
    high = [start + sum(max(0, end - start) for end in all_ends) for start, *all_ends in ends]
    for each in reversed(updates):
        window = window_of(each)
        assert window is not None
        if window.is_disjoint(low, high):
            continue
        if not window.contains(low, high):
            return None
        # the coordinates in the value are those in the array, relative to a corner of the window
        own, strides, offset = contiguous_strides(each.attrs[0]), [0] * len(shape), 0
        for k, (start, terms) in enumerate(decoded):
            if window.axis[k] >= 0:
                step = own[window.axis[k]] * window.step[k]
                offset += step * (start - (window.first[k] if window.step[k] == 1 else window.last[k]))
                for axis, jump in terms:
                    strides[axis] += step * jump
        return each.operands[1], tuple(strides), offset
    return updates[0].operands[0], *node.attrs


def _moves(each: Expr, base: Expr, sources: Mapping[Expr, Source], depending: set[Expr]) -> bool:
    """Return whether an update may compute an element of `base` from elements at other indices of `base`."""
    pending, seen = [each.operands[1]], set()
    while pending:
        node = pending.pop()
        if node in seen or node not in depending:
            continue
        seen.add(node)
        if node.kind == "view":
            source, *place = sources.get(node, (node.operands[0], *node.attrs))
            if source is base:
                if (node.shape, *place) != each.attrs:
                    return True
            elif source.shape != node.shape or place != [contiguous_strides(node.shape), 0]:
                return True
            else:
                pending.append(source)
        elif node.kind != "map" or node.shape != each.attrs[0]:
            return True
        else:
            pending += node.operands
    return False


def _rewritten(
    graph: LiveGraph, order: Sequence[Expr], sources: Mapping[Expr, Source], replaced: Mapping[Expr, list[Expr]]
) -> LiveGraph:
    inner = {update for sequence in replaced.values() for update in sequence[:-1]}
    made: dict[Expr, Expr] = {}
    for node in order:
        if node in inner:
            continue
        if node in sources:
            source, strides, offset = sources[node]
            made[node] = view(made[source], node.shape, strides, offset)
        elif node in replaced:
            current = empty(node.shape, node.dtype)
            effective = {each.attrs: each for each in replaced[node]}
            for (shape, strides, offset), each in effective.items():
                current = update(current, made[each.operands[1]], shape, strides, offset, each.location)
            made[node] = current
        else:
            made[node] = with_operands(node, made)
    origins = {leaf: made[origin] for leaf, origin in graph.origins.items()}
    return LiveGraph([made[version] for version in graph.versions], origins)
