"""Recording of operations as expressions, which are evaluated when a program needs their values."""
