"""Random numbers with the same values as NumPy's generators draw, computed by native code on all threads."""
