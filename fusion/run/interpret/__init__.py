"""Interpretation of graphs on NumPy arrays, without a plan.

`program` orders a graph, and `frame` holds the values of one run. `maps` runs elementwise operations over blocks.
`moves` runs operations that move elements. `reductions` runs reductions and scans. Invariant: the bits are the same as
those of a plan. If only a plan can compute them, `NeedsKernelError` is raised before any memory is overwritten.
"""

from weft.fusion.run.interpret.frame import Interpreted, interpret
from weft.fusion.run.interpret.program import Program, make_program
from weft.fusion.run.reduce_arrays import NeedsKernelError

__all__ = ["Interpreted", "NeedsKernelError", "Program", "interpret", "make_program"]
