"""The expression graph: nodes, index maps, sizes, what is known of their values."""
