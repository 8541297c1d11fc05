"""Lowering: from groups to kernels in kernel IR, and these to functions that a device can launch."""
