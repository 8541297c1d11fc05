"""Random numbers that equal those of NumPy's generators, drawn by native code on all threads."""
