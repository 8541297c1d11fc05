"""Random draws of NumPy's generators, computed by native code on all threads."""
