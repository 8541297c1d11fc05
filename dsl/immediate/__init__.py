"""Tier 0, immediate execution: NumPy executes operations on small arrays in host memory when they are called."""
