"""Functions available in kernels, and array functions that launch kernels."""
