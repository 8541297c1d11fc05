"""Lowering of groups to kernel IR, and loading of the kernels on a device."""
