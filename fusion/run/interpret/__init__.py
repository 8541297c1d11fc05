"""Tier 1: execution of graphs without a plan, operation by operation on NumPy arrays.

`program` orders a graph, and `frame` holds the values of one run. `maps` runs elementwise operations over blocks,
`moves` operations that move elements, and `folds` reductions and scans. Invariant: the bits are those of a plan. If
only a plan has them, `NeedsKernelError` is raised before anything is overwritten.
"""

from weft.fusion.run.interpret.frame import Interpreted, interpret
from weft.fusion.run.interpret.program import Program, make_program
from weft.fusion.run.reduce_arrays import NeedsKernelError

__all__ = ["Interpreted", "NeedsKernelError", "Program", "interpret", "make_program"]
