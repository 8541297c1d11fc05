"""Random draws with the same results as NumPy's generators, computed by native code on all threads."""
