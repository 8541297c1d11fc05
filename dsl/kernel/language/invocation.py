"""Description of a call that is being compiled."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame


@dataclass(slots=True)
class Invocation:
    """A call that is being compiled: the frame of the calling function, and the call's syntax node."""

    frame: FunctionFrame
    node: ast.AST

    @property
    def c(self) -> Compiler:
        """The compiler of the kernel that contains the call."""
        return self.frame.compiler
