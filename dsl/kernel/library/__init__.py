"""What kernels call: the CUDA model, functions of numbers and arrays, libraries; and functions made of kernels."""
