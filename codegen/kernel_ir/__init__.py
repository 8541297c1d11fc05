"""Kernel IR, the typed intermediate representation of kernels."""
