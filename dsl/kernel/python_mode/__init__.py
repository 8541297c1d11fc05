"""Execution of kernels as plain Python, for debuggers and as a reference."""
