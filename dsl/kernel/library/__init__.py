"""Functions available in kernels, and array functions made of kernels."""
