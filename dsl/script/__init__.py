"""Weft's versions of NumPy's modules, and the redirection of a program's imports of NumPy to these versions."""
