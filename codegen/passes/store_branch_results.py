"""Rewriting of branches, so that they store their results in variables.

In: a threaded kernel. Out: the kernel in which no `if` around a synchronization point has results, unless one of the
results is a pointer. The regions of the `if` store their results to `local` variables, which are loaded after the `if`.
The `if` can then be executed once for all threads of a block, although its results differ between threads.
"""

from __future__ import annotations

from typing import Any

from weft.codegen.kernel_ir.operation import SYNCHRONIZATION, Kernel, Operation, Pointer, program_order
from weft.codegen.passes.rewrite import Rewriter


def store_branch_results(kernel: Kernel) -> Kernel:
    """Use `local` variables for the results of branches that contain synchronization points."""
    return _Storer(kernel).run() if any(_has_results_to_store(o) for o in kernel.walk()) else kernel


def _has_results_to_store(operation: Operation) -> bool:
    if operation.opcode != "if" or not operation.results or any(isinstance(v.type, Pointer) for v in operation.results):
        return False
    return any(o.opcode in SYNCHRONIZATION for region in operation.regions for o in program_order(region.operations))


class _Storer(Rewriter):
    """Rewriter that passes the results of branches through variables."""

    def structured(self, operation: Operation, operands: list[Any]) -> None:
        if not _has_results_to_store(operation):
            super().structured(operation, operands)
            return
        b = self.builder
        variables = [b.local(v.dtype) for v in operation.results]
        start = b.constant(0)
        regions = []
        for region in operation.regions:
            with b.region() as block:
                self.body(region.operations)
                if block.operations[-1].opcode == "yield":  # otherwise it leaves, and has no results
                    for variable, value in zip(variables, block.operations.pop().operands, strict=True):
                        b.store(variable, start, value)
            regions.append(block)
        b.emit("if", tuple(operands), (), tuple(regions), **operation.attributes)
        for value, variable in zip(operation.results, variables, strict=True):
            self.map[value] = b.load(variable, start)
