"""Recording: from arrays' storages to expressions, loop by loop, until somebody needs a value."""
