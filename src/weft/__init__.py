"""weft: write NumPy, get fused CUDA kernels."""
