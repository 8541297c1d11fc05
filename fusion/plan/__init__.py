"""Planning: from an expression graph to the kernels and other steps of a plan."""
