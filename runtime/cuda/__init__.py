"""The CUDA devices."""
