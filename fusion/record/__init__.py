"""Recording of operations on storages as expressions, which are evaluated when their values are needed."""
