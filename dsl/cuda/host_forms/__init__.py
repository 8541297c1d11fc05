"""What computes libdevice's functions where there is no libdevice: functions in the kernel language."""
