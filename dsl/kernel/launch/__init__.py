"""Kernels as Python objects: specialization, ahead-of-time compilation, launch and inspection."""
