"""Lowering of fused operations to kernel IR, and compilation of the kernels for a device."""
