"""The description of a call that a handler compiles."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame


@dataclass(slots=True)
class Invocation:
    """A call to be compiled: the frame of the calling function, and the syntax node of the call."""

    frame: FunctionFrame
    node: ast.AST

    @property
    def c(self) -> Compiler:
        """The compiler of the kernel that contains the call."""
        return self.frame.compiler
