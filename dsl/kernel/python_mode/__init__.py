"""Kernels that run as plain Python, for debuggers and as an oracle."""
