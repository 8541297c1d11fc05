"""The kernel language, and its compiler from Python functions to kernel IR."""
