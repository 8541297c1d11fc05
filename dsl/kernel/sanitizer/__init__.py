"""The sanitizer of kernels, which detects out-of-bounds accesses, races, and barriers in divergent code."""
