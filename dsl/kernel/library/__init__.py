"""Functions that kernels can call, and functions of arrays that launch kernels."""
