"""Lowering of groups to kernel IR, and compilation of the kernels for a device."""
