"""NumPy's functions on arrays, grouped by subject."""
