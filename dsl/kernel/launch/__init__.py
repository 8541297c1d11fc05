"""Kernels as objects: specialisation, ahead-of-time compilation, launch and inspection."""
