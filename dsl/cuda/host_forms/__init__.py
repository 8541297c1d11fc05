"""Implementations of libdevice's functions in the kernel language, for devices without libdevice."""
