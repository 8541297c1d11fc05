"""Choice of the loops to vectorize on the CPU.

In: a logical kernel. Out: the kernel with marked loops. The body of a loop with ``lanes=W`` runs for W consecutive
indices at once, unless the loop also has ``apart``. A loop that runs in vectors contains no marked loop. A reduction
gets further operands (the identities of its accumulators, with which the lanes start) and a second region that combines
two sets of accumulators.
"""

from __future__ import annotations

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import STRUCTURAL, Block, Kernel, Operation, Pointer, Value, program_order
from weft.codegen.ops.op_table import SUM_LANES, combine_all, find_op
from weft.codegen.passes.expand_bfloat16 import expand_bfloat16
from weft.codegen.passes.index_steps import index_steps
from weft.codegen.passes.inline_rows import has_control_flow, inline_rows
from weft.codegen.passes.reduction_identities import reduction_identities, rounds
from weft.codegen.passes.rewrite import Rewriter
from weft.codegen.passes.unroll_loops import unroll_loops
from weft.codegen.target import Target


def choose_lanes(kernel: Kernel, target: Target) -> Kernel:
    """Mark the loops to vectorize, and return the kernel.

    Of nested loops, the one with the most contiguous accesses is marked. The order of a rounding reduction does not
    depend on the other operations of its loop. Each such reduction uses lanes, unless it has the ``across`` attribute
    or contains another rounding reduction. If it has to run element by element, its elements are still distributed over
    the lanes (``apart``).
    """
    kernel = Rewriter(kernel).run()
    loops = _loops(kernel.body)
    able = {op for op, _ in loops if _can_have_lanes(op)}
    reductions = [op for op, _ in loops if rounds(op) and not any(o.opcode == "for" and rounds(o) for o in _inside(op))]
    able -= _serial_loops([op for op, _ in loops], reductions)
    worth = sorted(
        ((_unit_accesses(op, depth), depth, k) for k, (op, depth) in enumerate(loops) if op in able), reverse=True
    )
    taken: set[Operation] = set()
    for score, _, k in worth:
        operation = loops[k][0]
        inside = _inside(operation)
        if not score or operation in taken or not taken.isdisjoint(inside):
            continue
        taken |= {operation, *inside}
        width = _width(operation, inside)
        waits = operation.attributes["role"] == "reduce" and len(inside) <= WAITING
        most, vectors = (4 * target.vector_bytes, 4) if waits else (64, _vectors(inside))
        lanes = SUM_LANES if rounds(operation) else max(4, min(most, vectors * target.vector_bytes // width))
        _mark(kernel, operation, lanes)
    for operation in reductions:
        if not operation.attributes.get("across") and not operation.attributes.get("lanes"):
            _mark(kernel, operation, SUM_LANES, apart=True)
    return kernel


def maskable(loop: Operation) -> bool:
    """Return whether a loop's body can run under a mask that disables some lanes.

    It can if it contains no atomics, and no gathers or scatters of small elements. The body of a rounding reduction
    always can, since the order of the reduction must not depend on other code.
    """
    if rounds(loop):
        return True
    body = loop.regions[0]
    steps = index_steps(program_order(body.operations), body.parameters[0])
    for operation in program_order(body.operations):
        if operation.opcode == "atomic":
            return False
        if operation.opcode in ("load", "store"):
            pointer, index = operation.operands[:2]
            if pointer.element.itemsize < 4 and steps.get(index, 0) not in (0, 1):
                return False
    return True


# Maximum number of operations of a short reduction whose order is irrelevant. Its iterations wait for the previous
# iteration, not for memory or an execution unit, so the loop uses more vectors.
WAITING = 12

# Number of values shared by all lanes (mostly constants) above which an iteration processes one vector instead of two:
# the values fill the registers, and the following iterations keep the machine busy.
SHARED = 16


def _vectors(inside: list[Operation]) -> int:
    """Return the number of vectors per iteration: two, or one if many registers are in use."""
    own = {v for o in inside for v in o.results}
    read = {v for o in inside if o.opcode not in STRUCTURAL for v in o.operands}
    shared = [v for v in read - own if isinstance(v.type, np.dtype) and v.type.kind == "f"]
    return 1 if len(shared) > SHARED else 2


def _width(operation: Operation, inside: list[Operation]) -> int:
    """Return the size in bytes of the widest vector elements in a loop.

    Indices that grow by a constant stay scalars, unless an operation other than index arithmetic uses them.
    """
    steps = index_steps(inside, operation.regions[0].parameters[0])
    widest = 1
    for each in inside:
        is_index = bool(each.results) and all(steps.get(v, 0) is not None for v in each.results)
        for position, value in enumerate(each.operands):
            is_index_here = is_index or (each.opcode in ("load", "store") and position == 1)
            step = steps.get(value, 0)
            if isinstance(value.type, Pointer) or step is None or (step and not is_index_here):
                widest = max(widest, _itemsize(value))
    return widest  # (results that are not operands are unused)


def _itemsize(value: Value) -> int:
    kind = value.type.dtype if isinstance(value.type, Pointer) else value.type
    return kind.itemsize // 2 if kind.kind == "c" else kind.itemsize


def _loops(body: Block) -> list[tuple[Operation, int]]:
    found: list[tuple[Operation, int]] = []
    stack = [(body, 0)]
    while stack:
        block, depth = stack.pop()
        for operation in block.operations:
            if operation.opcode == "for":
                found.append((operation, depth))
            stack.extend((region, depth + 1) for region in operation.regions)
    return found


def _inside(operation: Operation) -> list[Operation]:
    return list(program_order(operation.regions[0].operations))


def _steps(operation: Operation) -> dict[Value, int | None]:
    region = operation.regions[0]
    return index_steps(region.operations, region.parameters[0])


def _can_have_lanes(operation: Operation) -> bool:
    """Return whether a loop can be vectorized.

    It must be a parallel loop, or a reduction that contains no rounding reduction. The bounds of inner loops must be
    the same in all lanes, and each `if` may only select values.
    """
    if operation.attributes["role"] not in ("parallel", "reduce"):
        return False
    if operation.attributes["role"] == "reduce" and any(o.opcode == "for" and rounds(o) for o in _inside(operation)):
        return False
    steps = _steps(operation)
    for inner in _inside(operation):
        if inner.opcode == "for" and any(steps.get(v, 0) != 0 for v in inner.operands[:2]):
            return False
        if has_control_flow(inner) and not chooses(inner):
            return False
    return True


def chooses(operation: Operation) -> bool:
    """Return whether an `if` only selects values, so that vector lanes may compute both regions."""
    if operation.opcode != "if" or not operation.results:
        return False
    inside = [o for region in operation.regions for o in region.operations]
    return all(
        o.opcode in ("constant", "cast", "load", "yield") or chooses(o)
        if o.opcode in STRUCTURAL
        else not has_control_flow(o)
        for o in inside
    )


# Up to this stride, whole vectors are loaded, and elements are extracted from them.
MOST_STEP = 4
# Assumed number of iterations of a loop, which weighs accesses inside a loop against accesses outside.
_TURNS = 8


def _serial_loops(loops: list[Operation], reductions: list[Operation]) -> set[Operation]:
    """Return the loops that must not be vectorized, so that no reduction rounds differently.

    These are the parallel loops around the reduction, or the reduction itself if it has the ``across`` attribute.
    """
    found: set[Operation] = set()
    for reduction in reductions:
        if reduction.attributes.get("across"):
            found.add(reduction)
        else:
            found.update(o for o in loops if o.attributes["role"] == "parallel" and reduction in _inside(o))
    return found


def _unit_accesses(operation: Operation, depth: int) -> int:
    """Return a loop's score for vectorization, which depends mostly on its memory accesses with unit stride.

    The score is 0 if the loop should not be vectorized.

    Contiguous accesses and small positive strides raise the score, large and unknown strides lower it. Each access
    is weighted by its depth. The score is at least 1 for a rounding reduction, and for a loop with an expensive math
    function and any of these accesses.
    """
    steps = _steps(operation)
    unit = other = math = 0
    stack = [(operation.regions[0], _TURNS**depth)]
    while stack:
        block, weight = stack.pop()
        for inner in block.operations:
            stack.extend((region, weight * _TURNS) for region in inner.regions)
            if inner.opcode in ("load", "store"):
                step = steps.get(inner.operands[1], 0)
                unit += 2 * weight * (step in (1, -1))
                unit += weight * (step is not None and 1 < step <= MOST_STEP)
                other += weight * (step is None or abs(step) > MOST_STEP)
            elif inner.opcode not in ("for", "if", "yield", "constant", "cast", "atomic"):
                math += find_op(inner.opcode).cost >= 20
    return max(unit - other, 1 if rounds(operation) or (unit + other and math) else 0)


def _mark(kernel: Kernel, operation: Operation, lanes: int, **attributes: bool) -> None:
    operation.attributes = {**operation.attributes, "lanes": lanes, **attributes}
    names = operation.attributes.get("combine", ())
    if not names:
        return
    builder = KernelBuilder.after(kernel)
    carried = operation.results
    before = builder.block
    types = [v.type for v in carried]
    identities = [
        builder.emit("constant", (), (kind,), value=value)[0]
        for value, kind in zip(reduction_identities(names, types), types, strict=True)
    ]
    first = tuple(builder.fresh(v.type) for v in carried)
    second = tuple(builder.fresh(v.type) for v in carried)
    with builder.region((*first, *second)) as combine:
        builder.yield_(*combine_all(builder, names, first, second))
    block = next(block for block in kernel.blocks() if operation in block.operations)
    at = block.operations.index(operation)
    block.operations[at:at] = before.operations
    operation.operands = (*operation.operands, *identities)
    operation.regions = (*operation.regions, combine)


def find_reduction_lanes(kernel: Kernel, target: Target) -> tuple[int, bool] | None:
    """Return the depth of the reduction loop to vectorize, and whether its remainder runs under a mask.

    Return None if no reduction is vectorized.

    The depth is the number of enclosing reduction loops. The remainder consists of the elements that do not fill a
    vector. `kernel` is the result of lowering, before any pass.
    """
    ready = unroll_loops(expand_bfloat16(inline_rows(kernel, straight=True)))
    blocks = [(choose_lanes(ready, target).body, 0)]
    while blocks:
        block, depth = blocks.pop()
        for operation in block.operations:
            reductions = operation.opcode == "for" and operation.attributes["role"] == "reduce"
            if reductions and operation.attributes.get("lanes"):
                return depth, target.has_masks
            blocks += [(region, depth + reductions) for region in operation.regions]
    return None
