"""The CUDA device, and the libraries and tools that it uses."""
