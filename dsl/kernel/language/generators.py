"""Compilation of generator expressions in calls such as ``sum(...)`` to loops.

In: a `Generator`, and an action for each item. Out: inline loops, as for a `for` statement.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from weft.dsl.kernel.language.compiler import FunctionFrame
from weft.dsl.kernel.language.expressions import evaluate
from weft.dsl.kernel.language.statements import LoopStep, lower_body
from weft.dsl.kernel.language.values import Generator


def each_item(generator: Generator, action: Callable[[Any], None]) -> None:
    """Compile a generator expression to loops, calling `action` to compile the code for an item."""
    frame: FunctionFrame = generator.frame
    node: ast.GeneratorExp = generator.node
    step = LoopStep(node.elt)  # type: ignore[arg-type, call-arg]
    body: list[ast.stmt] = [ast.copy_location(step, node)]
    for clause in reversed(node.generators):
        for test in reversed(clause.ifs):
            body = [ast.copy_location(ast.If(test, body, []), test)]
        body = [ast.copy_location(ast.For(clause.target, clause.iter, body, []), node)]
    # These loops must be the same objects in every run, so that the kinds of their variables are kept.
    step, body = frame.compiler.made.setdefault((frame.path, id(node)), (step, body))
    step.action = lambda: action(evaluate(frame, node.elt))
    lower_body(frame, body)
