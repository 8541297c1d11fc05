"""The choice between interpreting and compiling.

In: a graph that no plan in memory is for. Out: whether it was interpreted. Invariant: both give the same bits.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from weft.fusion.expr import Expr
from weft.fusion.graph import Graph
from weft.fusion.interpret import Interpreted, NeedsKernelError, Program, interpret, make_program
from weft.fusion.storage import Epoch

# Programs of graphs that were interpreted; None where only a plan has the bits. Bounded.
_programs: OrderedDict[Any, Program | None] = OrderedDict()
PROGRAMS_LIMIT = 256


def try_interpreting(
    key: Any, graph: Graph, epoch: Epoch, versions: list[Expr], wanted: tuple[int, ...] | None, settle: Any
) -> bool:
    """Interpret a graph. Returns whether that was possible."""
    program = _programs.get(key, ...)
    if program is ...:
        try:
            program = make_program(graph, wanted, epoch.device)
        except NeedsKernelError:
            program = None
        _programs[key] = program  # type: ignore[assignment]
        if len(_programs) > PROGRAMS_LIMIT:
            _programs.popitem(last=False)
    if program is None:
        return False
    try:
        table = interpret(program, epoch)  # type: ignore[arg-type]
    except NeedsKernelError:
        _programs[key] = None
        return False
    settle(Interpreted(program, versions), table)  # type: ignore[arg-type]
    return True
