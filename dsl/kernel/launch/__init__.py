"""Kernels as objects: specialised, compiled ahead, launched, inspected."""
