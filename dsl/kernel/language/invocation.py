"""One call while it is compiled: what handlers of functions are given first."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame


@dataclass(slots=True)
class Invocation:
    """Where a call stands, and the compilation it is part of."""

    frame: FunctionFrame
    node: ast.AST

    @property
    def c(self) -> Compiler:
        """The compilation."""
        return self.frame.compiler
