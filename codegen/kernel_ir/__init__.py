"""Kernel IR, the typed intermediate representation of kernels, with its builder, text form and verifier."""
