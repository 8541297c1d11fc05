"""Immediate execution (tier 0) of operations on small arrays in host memory, by NumPy."""
