"""Immediate execution (tier 0): NumPy executes operations on small arrays in host memory when they are called."""
