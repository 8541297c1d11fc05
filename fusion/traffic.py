"""Traffic: the bytes that kernels move, and the least that they could.

In: groups and schedules. Out: byte counts. Always true: an element counts once a kernel, however often the kernel goes
over it.
"""

from __future__ import annotations

from math import prod

from weft.fusion.expr import Expr
from weft.fusion.group import Group


def traffic(group: Group) -> tuple[int, int]:
    """Bytes that a group has to read and to write at least: each element that it touches once."""
    touched: dict[Expr, int] = {}
    written = 0
    own = {p.task.node for p in group.placed}
    for p in group.placed:
        for node, index in p.task.reads():
            if node in own:
                continue
            elements = node.size
            if index is not None:
                walked = {loop for loop, _ in index[1]}
                elements = min(elements, prod(loop.extent for k, loop in enumerate(p.task.loops) if k in walked))
            touched[node] = max(touched.get(node, 0), elements * node.dtype.itemsize)
        if p.task.node in group.private:
            continue
        walked = {loop for loop, _ in p.task.target[1]}
        if p.task.kind == "scatter":
            walked = set(range(len(p.task.loops)))
        written += prod(loop.extent for k, loop in enumerate(p.task.loops) if k in walked) * p.task.node.dtype.itemsize
    return sum(touched.values()), written
