"""The kernel sanitizer, which detects out-of-bounds accesses, races, and barriers that not all threads reach."""
