"""Random numbers equal to those of NumPy's generators, drawn by native code on several threads."""
