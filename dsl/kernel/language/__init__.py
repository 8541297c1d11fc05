"""The kernel language: from a Python function to kernel IR."""
