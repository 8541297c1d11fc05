"""Compiled reductions of rows, and the order in which kernels reduce elements.

In: an op and a dtype, or a reduction of an array. Out: a loaded kernel, or a `Tree`. Invariant: kernels are
created by the same lowering and code generation as plans, so they compute the same bits.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from weft.codegen import Target, find_reduction_lanes, kernel_digest, obtain_function, order_target
from weft.fusion.graph.expr import Expr, leaf, map_, reduce_, view
from weft.fusion.graph.reduction_order import LaneLoop, Tree
from weft.fusion.lower.kernels import lower_for
from weft.fusion.plan.group import Group, start_group
from weft.fusion.plan.materialized_values import choose_materialized, find_short
from weft.fusion.plan.nest import all_accesses, make_nest, order_loops
from weft.fusion.plan.reduction_splits import block_length
from weft.fusion.plan.task import Task, make_task
from weft.runtime import get_device

__all__ = ["choose_materialized", "compile_reduction", "find_short", "find_tree", "tree_of_array"]


def compile_reduction(op: str, kind: np.dtype, factors: int) -> tuple[Any, str, list[int], list[int]]:
    """Compile a reduction of contiguous rows. If `factors` is 2, it reduces the elementwise products of two rows.

    Return the loaded function, its kernel's digest, and the arguments `slots` and `slot_indices` of
    `make_reduction_ufunc`.
    """
    device = get_device("cpu")
    rows = [leaf(k, (100,), kind) for k in range(factors)]
    group = Group(0)
    node = reduce_(op, rows[0] if factors == 1 else map_("multiply", rows), (0,), kind)
    start_group(group, make_task(node, {*rows, node}, []))
    (lowered,) = lower_for(device.target, group, special=False)
    slots = [0] * len(lowered.bindings)
    slot_indices = {}
    for k, (what, value, _) in enumerate(lowered.bindings):
        slot_indices[value if what == "buffer" else what] = k
    digest = kernel_digest(device.target, lowered.kernel)
    indices = [slot_indices[each] for each in (*rows, node, "int")]
    return obtain_function(device, lowered.kernel, digest), digest, slots, indices


def tree_of_array(op: str, values: np.ndarray, axes: tuple[int, ...], kind: np.dtype) -> Tree:
    """Return the order in which a kernel reduces an array with the shape and strides of `values`."""
    steps = tuple(s // values.itemsize for s in values.strides)
    reach = sum(abs(s) * (n - 1) for s, n in zip(steps, values.shape, strict=True)) + 1
    behind = sum(-s * (n - 1) for s, n in zip(steps, values.shape, strict=True) if s < 0)
    base = leaf(0, (int(reach),), values.dtype)
    operand = view(base, values.shape, steps, int(behind))
    return find_tree(reduce_(op, operand, axes, kind), {base}, (), order_target())


def find_tree(node: Expr, stored: Collection[Expr], short: Collection[Expr], target: Target) -> Tree:
    """Return the order in which a kernel combines the elements of a reduction.

    `stored` contains the materialized expressions, and `short` the reductions that the kernel may unroll.
    """
    return tree_of(make_task(node, set(stored), [], short), target)


def tree_of(task: Task, target: Target) -> Tree:
    """Return the order in which a kernel for the reduction `task` combines the elements of its operand."""
    group = Group(0)
    start_group(group, task)
    nest = make_nest(group)
    own = {theirs: k for k, theirs in group.placed[0].loops.items()}
    inner = [k for k, loop in enumerate(group.loops) if loop.role == "reduce"]
    order = tuple(own[k] for k in order_loops(group, inner, all_accesses(group)))
    outer = tuple(k for k, loop in enumerate(task.loops) if loop.role == "parallel")
    levels = []
    lowered = lower_for(target, group, special=False)
    for kernel in lowered:
        found = find_reduction_lanes(kernel.kernel, target)
        levels.append(LaneLoop() if found is None else LaneLoop(*found))
    extents = tuple(loop.extent for loop in nest.inner)
    length = block_length(group, nest, target.machine)
    pieces = tuple(loop.extent for loop in task.loops)
    return Tree(pieces, outer, order, extents, length, levels[0], levels[-1])
