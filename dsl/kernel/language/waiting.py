"""Detection, on the CPU, of loops that wait forever for another thread.

On the CPU, the threads of a block run one after the other up to the next barrier, and blocks run in any order. A thread
that waits in a loop for a write by a later thread would wait forever. In: a `while` loop. Out: code that counts the
iterations of a loop that only waits, and reports an error after `LIMIT` iterations.
"""

from __future__ import annotations

import ast

from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame
from weft.dsl.kernel.language.values import INT, Constant, ScalarValue
from weft.dsl.kernel.language.variables import Variable

LIMIT = 2**30  # iterations


def begin_waiting(frame: FunctionFrame, node: ast.While) -> Variable | None:
    """Return an iteration counter for a waiting loop, or None if the loop is not checked."""
    c = frame.compiler
    if not c.reporting or c.target is None or c.target.machine.is_gpu or not _only_waits(node):
        return None
    counter = c.variable((*frame.path, "waiting", id(node)), "iterations of a loop that waits")
    c.assign(counter, ScalarValue(c.ir(Constant(0), INT), True, True))
    return counter


def _only_waits(node: ast.While) -> bool:
    """Return whether a `while` loop only waits: its test contains a call or a subscript, and its body only consists of `pass` and expressions."""
    asks = any(isinstance(part, (ast.Call, ast.Subscript)) for part in ast.walk(node.test))
    return asks and all(isinstance(statement, (ast.Pass, ast.Expr)) for statement in node.body)


def count_waiting(c: Compiler, counter: Variable) -> None:
    """Emit code that counts the iterations of a waiting loop, and reports an error when the count exceeds `LIMIT`."""
    count = c.apply("add", c.load(counter), Constant(1))
    c.assign(counter, count)
    c.report(
        c.ir(c.apply("greater", count, Constant(LIMIT))),
        RuntimeError,
        "this loop waits for what another thread writes. On the CPU, the threads of a block run one after the other up to "
        "the next barrier, and blocks in any order: use cuda.syncthreads(), or another launch",
    )
