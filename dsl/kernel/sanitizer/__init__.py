"""Sanitizer of kernels: out-of-bounds accesses, races, and barriers in divergent control flow."""
