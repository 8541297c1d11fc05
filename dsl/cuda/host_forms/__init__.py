"""The functions of libdevice, implemented in the kernel language for devices without libdevice."""
