"""One call during compilation, the first argument of every handler."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame


@dataclass(slots=True)
class Invocation:
    """A call's source location and compilation."""

    frame: FunctionFrame
    node: ast.AST

    @property
    def c(self) -> Compiler:
        """The compilation."""
        return self.frame.compiler
