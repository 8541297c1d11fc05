"""Kernels as Python objects: compilation, launch and inspection."""
