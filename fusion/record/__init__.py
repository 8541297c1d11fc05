"""Recording of operations as expressions, which are evaluated when values are needed."""
