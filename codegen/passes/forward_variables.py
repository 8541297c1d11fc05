"""Store-to-load forwarding for variables that are stored only once.

In: a threaded kernel, with a user's variables as `local` memory of one element. Out: the kernel with fewer variables.
If a variable has one store and all loads follow it, loads become the stored value. Later passes then see values that
depend on a thread's index.
"""

from __future__ import annotations

from typing import Any

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation, Value
from weft.codegen.passes.find_uniform import variables_read_first
from weft.codegen.passes.rewrite import Rewriter


def forward_variables(kernel: Kernel) -> Kernel:
    """Replace the loads of a variable by the stored value, if the variable's only store precedes all its loads."""
    stored = _stored_once(kernel)
    if not stored:
        return kernel

    def rule(b: KernelBuilder, o: Operation, operands: list[Any]) -> list[Any] | None:
        if not o.operands or o.operands[0] not in stored:
            return [o.results[0]] if o.opcode == "local" and o.results[0] in stored else None
        return [] if o.opcode == "store" else [rewriter.map[stored[o.operands[0]]]]

    rewriter = Rewriter(kernel, rule)
    return rewriter.run()


def _stored_once(kernel: Kernel) -> dict[Value, Value]:
    """Return the stored value of each variable whose only store precedes all its loads."""
    variables: dict[Value, list[Value]] = {}
    for o in kernel.walk():
        if o.opcode == "local" and o.attributes["count"] == 1:
            variables[o.results[0]] = []
    for o in kernel.walk():
        for k, value in enumerate(o.operands):
            if value in variables and not (k == 0 and o.opcode in ("load", "store")):
                del variables[value]
        if o.opcode == "store" and o.operands[0] in variables:
            variables[o.operands[0]].append(o.operands[2])
    candidates = {variable: values[0] for variable, values in variables.items() if len(values) == 1}
    bodies = (kernel.body, *(function.body for function in kernel.functions))
    early = set().union(*(variables_read_first(body, {}) for body in bodies))
    return {variable: value for variable, value in candidates.items() if variable not in early}
