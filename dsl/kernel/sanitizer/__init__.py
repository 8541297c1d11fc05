"""Kernels watched: out-of-bounds accesses, races, barriers in divergent flow."""
