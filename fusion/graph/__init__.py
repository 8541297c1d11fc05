"""The expression graph: nodes, index maps, sizes, ranges of values, orders of reductions, and conversion from sympy."""
