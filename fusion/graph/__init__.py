"""The expression graph: nodes, index maps, sizes and orders of reductions."""
