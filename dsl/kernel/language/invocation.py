"""A call that is being compiled. It is the first argument of every handler."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame


@dataclass(slots=True)
class Invocation:
    """A call in a kernel: the calling function's frame, and the syntax node of the call."""

    frame: FunctionFrame
    node: ast.AST

    @property
    def c(self) -> Compiler:
        """The compiler of the kernel."""
        return self.frame.compiler
