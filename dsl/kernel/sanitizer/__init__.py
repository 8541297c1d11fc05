"""Sanitizer of kernels, which detects out-of-bounds accesses, races, and barriers in divergent control flow."""
