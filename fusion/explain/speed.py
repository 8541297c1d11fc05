"""The arithmetic rate of a device, measured once per process.

In: a device. Out: float32 operations per second. Invariant: the measured program is one kernel whose data fits in the
caches. No part of the user's program runs or is counted.
"""

from __future__ import annotations

import time
from array import array

import numpy as np

from weft.codegen import obtain_function
from weft.fusion.graph.expr import Expr, constant, leaf, map_
from weft.fusion.lower.kernels import lower_for
from weft.fusion.plan.schedule import make_schedule
from weft.runtime import Device

ELEMENTS = 1 << 18
CHAINS, LINKS = 8, 4  # number of independent chains, and of links in a chain; a link is a product and a sum
REPEATS = 7

_measured: dict[str, float] = {}


def arithmetic_rate(device: Device) -> float | None:
    """Return the device's float32 operations per second on cached data. Return None for a pseudo-device that emulates a GPU or only compiles.

    The number is the rate of the fastest of a few runs of one kernel. The kernel is compiled if it is not in the disk
    cache.
    """
    if device.name.startswith(("null", "simt")):
        return None
    if device.name not in _measured:
        _measured[device.name] = _measure(device)
    return _measured[device.name]


def _measure(device: Device) -> float:
    value = _program(device)
    (group,) = make_schedule([value], [], {}, device.target.machine).groups
    (lowered,) = lower_for(device.target, group, special=True)
    function = obtain_function(device, lowered.kernel)
    buffers = {True: device.allocate(value.nbytes), False: device.allocate(value.nbytes)}
    device.copy(buffers[True], buffers[False], value.nbytes)
    slots = array("q")
    for kind, bound, offset in lowered.bindings:
        slots.append(bound if kind == "int" else buffers[bound.kind == "leaf"].address + offset)
    seconds = []
    for _ in range(REPEATS):
        device.synchronize()
        start = time.perf_counter()
        device.launch(function, lowered.parallel, lowered.work, slots)
        device.synchronize()
        seconds.append(time.perf_counter() - start)
    return (2 * LINKS + 1) * CHAINS * ELEMENTS / min(seconds)


def _program(device: Device) -> Expr:
    kind = np.dtype(np.float32)
    x = leaf(0, (ELEMENTS,), kind, device.name)
    total = None
    for chain in range(CHAINS):
        value = x
        for link in range(LINKS):
            value = map_("multiply", [value, constant(0.5 + 0.01 * chain, kind)])
            value = map_("add", [value, constant(1 + link, kind)])
        total = value if total is None else map_("add", [total, value])
    assert total is not None
    return total
