"""Tier 0: immediate execution of operations on small arrays in host memory."""
