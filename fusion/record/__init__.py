"""Recording of operations as expressions, which are evaluated when their values are needed."""
