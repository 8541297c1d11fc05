"""Functions that kernels can call, and array functions that launch kernels."""
