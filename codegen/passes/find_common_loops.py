"""Search for loops that can run outside the loop over threads.

In: a threaded kernel and its uniform values. Out: the loops inside which the loop over the threads should run,
because LLVM vectorizes only innermost loops. Invariant: no access of such a loop has a constant stride of two or more
elements between adjacent threads, except in loops with the ``in_step`` attribute.
"""

from __future__ import annotations

import numpy as np

from weft.codegen.kernel_ir.operation import STRUCTURAL, Kernel, Operation, program_order
from weft.codegen.passes.find_uniform import Uniformity
from weft.codegen.passes.thread_steps import ThreadSteps

_INSIDE = frozenset(
    {"constant", "cast", "load", "store", "if", "scope", "leave", "yield", "local", "offset", "reinterpret", "table"}
    | {"thread_index", "block_index", "block_size", "grid_size", "shared", "dynamic_shared"}
)
_BESIDE = frozenset({"atomic", "atomic_cas", "repeat", "for"})  # also allowed in loops that threads run in step


def find_common_loops(kernel: Kernel, uniform: Uniformity, axis: int) -> list[Operation]:
    """Return, in program order, the loops that are faster outside the loop over threads than inside.

    `axis` is the result of `innermost_axis`.
    """
    steps = ThreadSteps(kernel, uniform, axis)
    return [
        o
        for o in program_order(kernel.body.operations)
        if o.opcode in ("repeat", "for") and not o.results and _is_worth_it(o, uniform, steps)
    ]


def _is_worth_it(loop: Operation, uniform: Uniformity, steps: ThreadSteps) -> bool:
    if any(cause.opcode != "if" for cause in uniform.apart.get(loop, ())):
        return False
    if loop.opcode == "for" and uniform.differs(loop.operands):
        return False
    inside = list(program_order(loop.regions[0].operations))
    if loop.attributes.get("in_step"):
        return all(o.opcode not in STRUCTURAL or o.opcode in _INSIDE | _BESIDE for o in inside)
    if any(o.opcode in STRUCTURAL and o.opcode not in _INSIDE for o in inside):
        return False
    if any(o.opcode == "leave" and uniform.apart.get(o, ()) != uniform.apart.get(loop, ()) for o in inside):
        return False
    strides = steps.strides(inside)
    if "symbolic" in strides and "contiguous" not in strides:  # for example rows: each thread reads its row faster
        return False
    arrays = [root for root, count in steps.counts.items() if count > 1]
    if not steps.have_simple_strides(inside, arrays):
        return False
    if "contiguous" in steps.strides(o for o in inside if o.opcode == "store"):
        return True
    # otherwise, the loop must compute values that differ between threads
    computed = [v for o in inside if o.opcode not in STRUCTURAL for v in o.results if uniform.differs([v])]
    return any(isinstance(v.type, np.dtype) and v.type.kind == "f" for v in computed)
