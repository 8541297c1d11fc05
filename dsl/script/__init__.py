"""Weft's versions of NumPy's modules, and the redirection of a program's imports to them."""
