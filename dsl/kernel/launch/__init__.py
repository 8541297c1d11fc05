"""Kernels as objects: specialization, ahead-of-time compilation, launch and inspection."""
