"""Recording: from arrays' storages to expressions, loop by loop, until a value is needed."""
