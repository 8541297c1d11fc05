"""Random numbers of NumPy's generators, drawn in native code on all threads."""
