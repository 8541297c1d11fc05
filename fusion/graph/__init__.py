"""The expression graph: nodes, index maps, sizes, and ranges of values."""
