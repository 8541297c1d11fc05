"""The CUDA device, and the libraries and tools that the device uses."""
