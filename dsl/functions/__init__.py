"""NumPy's functions on arrays, by subject."""
