"""The kernel language, and the compiler from Python functions to kernel IR."""
