"""The kernel sanitizer, which detects out-of-bounds accesses, races, and barriers in divergent code."""
