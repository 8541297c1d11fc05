"""The choice of values to materialize.

In: all nodes that an evaluation needs, operands first. Out: the inputs and the nodes to materialize. Other nodes are
computed at each use. Invariant: operands of host functions, or the arrays of which they are views, are materialized.
The previous versions of updates and scatters are materialized too, unless readers select between the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod

from weft.codegen import find_op
from weft.fusion.graph.expr import ALWAYS_STORED, Expr, is_window
from weft.fusion.graph.index_map import decode_view
from weft.fusion.graph.reduction_order import LONG_ROW, MANY_ROWS, REDUCTION_BLOCK
from weft.fusion.plan.replaced_arrays import window_of

# Maximum cost in instructions per element of a value that is recomputed for each different way in which it is read, or
# before and after a reduction. Above this cost, a store and loads are cheaper. (The break-even cost is 62 on a GPU, but
# a CPU executes fewer instructions per byte of traffic.)
RECOMPUTE_LIMIT = 24
# Maximum cost in instructions per element of a value that is recomputed at each pass over a row in the cache.
PASS_LIMIT = 48
# Maximum number of inlined operations of a value. This limits the size and the compile time of a kernel.
INLINE_LIMIT = 400
# Maximum number of materialized values from which a value is computed: a kernel has at most 24 pointers
# (`grouping.py`), and some of them are written.
READS_LIMIT = 20
# Maximum number of parts of an assembled value that readers select from, and the cost of a selection.
PARTS_LIMIT = 8
PART_COST = 2
# Maximum number of branches of a selection, including those of selections nested in it. Each branch has its own copy of
# the computations that it needs.
BRANCHES_LIMIT = 32
DIVIDE_COST = 4
# Maximum bytes of a result for which one kernel that selects parts is faster than one kernel for the base and one per
# part. Larger results also use one kernel if the parts cover them, because one kernel moves fewer bytes.
SMALL_RESULT = 1 << 18
# Maximum number of elements per result of reductions that are computed in the kernel of their only user.
REDUCED_AGAIN = 4


def choose_materialized(order: list[Expr], outputs: Collection[Expr]) -> set[Expr]:
    """Return the inputs and the values to materialize. `order` lists an evaluation's nodes, operands before users."""
    parts = _find_parts(order, outputs)
    stored = {node for node in order if node.kind in ALWAYS_STORED and node not in parts} | set(outputs)
    maps: dict[Expr, set[object]] = {}  # node -> the different ways in which it is read
    for node in order:
        _note_uses(node, stored, parts, maps)
    kernels, passes = (_find_stages(order, divides) for divides in (_needs_kernel, _needs_pass))
    inlined: dict[Expr, frozenset[Expr]] = {}
    reads: dict[Expr, frozenset[Expr]] = {}  # inlined value -> the values that it reads from memory
    # inlined value -> the selections that compute it, with their numbers of branches
    choices: dict[Expr, dict[Expr, int]] = {}
    for node in order:
        if node.kind in ALWAYS_STORED and node not in parts:
            _bound_reads(node, stored, parts, inlined, reads)
            continue
        reads[node] = _bound_reads(node, stored, parts, inlined, reads)
        members = frozenset({node}).union(*(inlined[c] for c in node.operands if c not in stored and c in inlined))
        if node not in stored:
            again = len(kernels.get(node, ())), len(passes.get(node, ()))
            if len(members) > INLINE_LIMIT or _worth_storing(node, members, maps.get(node, set()), *again):
                _materialize(node, stored, parts, inlined)
        if node not in stored:
            choices[node] = _count_branches(node, stored, parts, choices)
            if choices[node].get(node, 0) > BRANCHES_LIMIT:
                _materialize(node, stored, parts, inlined)
        inlined[node] = frozenset() if node in stored else members
    return stored


def _count_branches(
    node: Expr, stored: set[Expr], parts: set[Expr], choices: dict[Expr, dict[Expr, int]]
) -> dict[Expr, int]:
    """In the code of `node`, count the branches that choose between parts of an array, including nested ones. Return one count per array."""
    below = [choices.get(c, {}) for c in node.operands if c not in stored]
    if node in parts:
        return {node: len(node.operands) + sum(count for found in below for count in found.values())}
    return {choice: count for found in below for choice, count in found.items()}


def _bound_reads(
    node: Expr,
    stored: set[Expr],
    parts: set[Expr],
    inlined: dict[Expr, frozenset[Expr]],
    reads: dict[Expr, frozenset[Expr]],
) -> frozenset[Expr]:
    """If necessary, materialize operands of `node` until it reads at most `READS_LIMIT` values from memory. Return the values that it reads.

    The inlined operand with the most reads is materialized first.
    """
    while True:
        found = frozenset().union(*({c} if c in stored else reads.get(c, ()) for c in node.operands))
        if len(found) <= READS_LIMIT:
            return found
        inside = [c for c in node.operands if c not in stored and len(reads.get(c, ())) > 1]
        if not inside:
            return found
        _materialize(max(inside, key=lambda c: len(reads[c])), stored, parts, inlined)


def _materialize(node: Expr, stored: set[Expr], parts: set[Expr], inlined: dict[Expr, frozenset[Expr]]) -> None:
    """Mark a value as materialized. If the value is a new version of an array after an assignment to a part, also mark the earlier versions."""
    stored.add(node)
    while node in parts:
        node = node.operands[0]
        if node in stored:
            return
        stored.add(node)
        inlined[node] = frozenset()


def base_of(node: Expr) -> Expr:
    """If `node` is a view of an array in memory, return the node that it views. Otherwise, return `node`."""
    return node.operands[0] if is_window(node) else node


def _find_parts(order: list[Expr], outputs: Collection[Expr]) -> set[Expr]:
    """Return the updates that assign a part of a newly allocated array, and therefore need not be materialized.

    Instead, each reader selects the operand that contains its element. Updates of existing memory are not returned,
    because writing a part of the memory in place is cheaper.
    """
    users: dict[Expr, list[Expr]] = {}
    for node in order:
        for child in node.operands:
            users.setdefault(child, []).append(node)
    handed = {base_of(child) for node in order if node.kind == "opaque" for child in node.operands}
    inside = set(order)
    fresh: dict[Expr, int] = {}  # updates of new memory -> number of parts so far
    for node in order:
        if node.kind == "update":
            below = node.operands[0]
            exists = below not in inside or (below.kind in ALWAYS_STORED and below.kind not in ("update", "empty"))
            count = -1 if exists or (below.kind == "update" and below not in fresh) else fresh.get(below, 0)
            if 0 <= count < PARTS_LIMIT and window_of(node) is not None:
                fresh[node] = count + 1
    parts: set[Expr] = set()
    for node in reversed(order):
        if (
            node not in fresh
            or node in handed
            or (node in outputs and not _is_written_by_one_kernel(node, fresh[node], users))
        ):
            continue
        written = [u for u in users.get(node, ()) if u.kind in ("update", "scatter") and u.operands[0] is node]
        if all(u in parts for u in written):
            parts.add(node)
    # an update of a materialized version writes into this version
    for node in order:
        if node in parts and node.operands[0].kind == "update" and node.operands[0] not in parts:
            parts.discard(node)
    return parts


def _is_written_by_one_kernel(update: Expr, count: int, users: dict[Expr, list[Expr]]) -> bool:
    """Return whether one kernel should write an array that is assembled from `count` rectangular parts."""
    base, written, in_order = update, 0, True
    for _ in range(count):
        written += base.operands[1].size
        # (in time steps, values that are also read elsewhere would be recomputed at each read)
        in_order = in_order and all(
            user is base or (user.kind == "view" and (user.shape, *user.attrs) == base.attrs)
            for user in users[base.operands[0]]
        )
        base = base.operands[0]
    if base.kind == "empty":
        return count > 1
    return base.kind == "constant" or update.nbytes <= SMALL_RESULT or (in_order and written >= update.size)


def _note_uses(node: Expr, stored: set[Expr], parts: set[Expr], maps: dict[Expr, set[object]]) -> None:
    for position, child in enumerate(node.operands):
        ways = maps.setdefault(child, set())
        match node.kind:
            case "view":
                ways.add((node.shape, *node.attrs))
            case "opaque" if not is_window(child):
                stored.add(child)
            case "update" if position == 0 and node in parts:
                ways.add("same")
            case "update" | "scatter" if position == 0:
                stored.add(child)
            case "gather" if position == 0:
                ways.add((node.shape, node))
            case "map" if child.shape != node.shape and child.size > 1:
                ways.add(node.shape)
            case _:
                ways.add("same")


def _find_stages(order: list[Expr], divides: Callable[[Expr], bool]) -> dict[Expr, set[int]]:
    """Return the stages in which each value is read.

    The stage of a value is the maximum number, over all paths to the value, of reductions for which `divides` is true.
    A value that is read in several stages is computed several times or materialized.
    """
    stage: dict[Expr, int] = {}
    found: dict[Expr, set[int]] = {}
    for node in order:
        own = stage[node] = max([stage[c] + divides(c) for c in node.operands if c in stage], default=0)
        for child in node.operands:
            found.setdefault(child, set()).add(own)
    return found


def _needs_pass(node: Expr) -> bool:
    """Return whether a value is a reduction that is not unrolled, and thus needs a pass over the elements."""
    return node.kind == "reduce" and node.operands[0].size > REDUCED_AGAIN * node.size


def _needs_kernel(node: Expr) -> bool:
    """Return whether a value is a reduction that usually ends a kernel, so that its users need another kernel.

    Such a reduction is along columns, along long rows, or along a few rows that are longer than a block.
    """
    if not _needs_pass(node) or not node.size:
        return False
    below, axes = node.operands[0], node.attrs[0]
    length, dimensions = below.size // node.size, len(below.shape)
    if length > LONG_ROW or (node.size < MANY_ROWS and length > REDUCTION_BLOCK):
        return True
    return sorted(axes) != list(range(dimensions - len(axes), dimensions))


def _worth_storing(node: Expr, members: frozenset[Expr], ways: set[object], kernels: int, passes: int) -> bool:
    """Return whether it is faster to materialize a value than to recompute it at each use.

    `ways` contains the different ways in which the value is read. `kernels` and `passes` are the numbers of kernels and
    passes that read the value.
    """
    if node.size <= 1 or not ways:
        return False
    # a value that is broadcast along an outer axis would be recomputed for every row
    broadcast = any(_elements(way) >= 4 * node.size for way in ways)
    times = max(len(ways), kernels)
    if times == 1 and passes == 1 and not broadcast:
        return False
    cost = sum(_cost(m) for m in members)
    if passes > 1 and cost > PASS_LIMIT:
        return True
    return (times - 1) * cost > RECOMPUTE_LIMIT or (cost > 12 and broadcast)


def _cost(node: Expr) -> int:
    """Estimate the instructions per element of an operation, without those of its operands."""
    match node.kind:
        case "map" if node.op != "cast":
            return find_op(node.op).cost
        case "update":
            return PART_COST
        case "view":
            return 0 if decode_view(node.operands[0].shape, node.shape, *node.attrs) is not None else DIVIDE_COST
    return 0


def _elements(way: object) -> int:
    """If a value is read through a view, a gather or a broadcast, return the number of elements of that operation, otherwise 0."""
    if not isinstance(way, tuple) or not way:
        return 0
    return prod(way[0] if isinstance(way[0], tuple) else way)


def find_short(order: list[Expr], outputs: Collection[Expr]) -> set[Expr]:
    """Return the short reductions, except `argmin` and `argmax`, that can be inlined in their only user."""
    users: dict[Expr, int] = dict.fromkeys(outputs, 2)
    for node in order:
        for child in set(node.operands):
            users[child] = users.get(child, 0) + 1

    def is_short(node: Expr) -> bool:
        reduced = prod(node.operands[0].shape[axis] for axis in node.attrs[0])
        return reduced <= REDUCED_AGAIN and node.op not in ("argmin", "argmax") and users.get(node, 0) == 1

    return {node for node in order if node.kind == "reduce" and is_short(node)}
