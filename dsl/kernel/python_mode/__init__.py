"""Kernels run as plain Python, for debuggers and as a reference."""
