"""The memory bandwidth of a device, which is measured once per process."""

from __future__ import annotations

import time

from weft.runtime.device import Device

COPIED = 64 << 20  # bytes: more than most caches hold
REPEATS = 5


_measured: dict[str, float] = {}


def copy_bandwidth(device: Device) -> float | None:
    """Return the bytes per second that a device reads and writes when it copies memory.

    The number is the median over five copies of 64 MiB, which take about 10 ms on a CPU. Return None for the null
    device.
    """
    if device.name.startswith("null"):
        return None
    if device.name not in _measured:
        _measured[device.name] = _measure(device)
        device.memory.empty()  # the copies' memory is no longer needed, and devices keep freed memory
    return _measured[device.name]


def _measure(device: Device) -> float:
    source, target = device.allocate(COPIED), device.allocate(COPIED)
    seconds = []
    for _ in range(REPEATS + 1):
        device.synchronize()
        start = time.perf_counter()
        device.copy(source, target, COPIED)
        device.synchronize()
        seconds.append(time.perf_counter() - start)
    # the first copy causes page faults
    return 2 * COPIED / sorted(seconds[1:])[REPEATS // 2]
