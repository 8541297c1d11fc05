"""Random numbers of NumPy's generators, drawn by native code on all threads."""
