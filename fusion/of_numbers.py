"""Rows of the op table on single numbers of the host, at once.

In: a row and Python numbers. Out: a Python number, with the bits that the row's kernels give an element of an array. Always
true: what is called is the kernel that a plan of the same operation would run on the CPU.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.fusion.expr import map_, scalar
from weft.runtime import Device

if TYPE_CHECKING:
    from weft.fusion.plan import KernelLaunch

# The dtypes of Python's numbers, and how they lie in memory.
NUMBERS: dict[type, Any] = {float: ctypes.c_double, int: ctypes.c_int64, bool: ctypes.c_bool}
DTYPES = {kind: np.dtype(kind) for kind in NUMBERS}
_KINDS = {dtype: kind for kind, dtype in DTYPES.items()}


class _Function:
    """A kernel of one element, with memory for its arguments and its result."""

    __slots__ = ("_address", "_call", "_memory", "_result", "_values")

    def __init__(self, launch: KernelLaunch, kinds: tuple[type, ...], result: type) -> None:
        slots = launch.slots[:]
        home = ctypes.c_int64()
        for slot, _, offset in launch.patches:  # (its only buffer is the result's)
            slots[slot] = ctypes.addressof(home) + offset
        start, size = slots.buffer_info()[0], slots.itemsize
        self._values = [
            [NUMBERS[kind].from_address(start + size * slot) for slot, place in launch.scalars if place == k]
            for k, kind in enumerate(kinds)
        ]
        self._result = NUMBERS[result].from_address(ctypes.addressof(home))
        self._memory = slots, home
        self._call = launch.function.call
        self._address = start

    def __call__(self, numbers: tuple[Any, ...]) -> Any:
        for cells, number in zip(self._values, numbers, strict=True):
            for cell in cells:
                cell.value = number
        self._call(self._address, 0, 1)
        return self._result.value


# Functions that nobody is calling, by row, the types of the numbers, and device; None where there is no such function.
_idle: dict[Any, list[_Function] | None] = {}


def of_numbers(op: str, numbers: tuple[Any, ...], device: Device) -> Any:
    """Row `op` of floats, integers (of 64 bits) and bools; None where that is no such number, or more than a kernel."""
    key = op, *map(type, numbers), device
    idle = _idle.get(key, ...)
    if idle is None:
        return None
    if idle is ... or not idle:
        made = _make(op, tuple(map(type, numbers)), device)
        idle = _idle.setdefault(key, None if made is None else [])
        if made is None or idle is None:
            return None
        idle.append(made)
    # (another thread may have taken the last one meanwhile)
    try:
        function = idle.pop()
    except IndexError:
        return of_numbers(op, numbers, device)
    found = function(numbers)
    idle.append(function)
    return found


def _make(op: str, kinds: tuple[type, ...], device: Device) -> _Function | None:
    from weft.fusion.execute import make_plan
    from weft.fusion.graph import Graph
    from weft.fusion.kernels import Special
    from weft.fusion.plan import KernelLaunch

    node = map_(op, [scalar(k, DTYPES[kind]) for k, kind in enumerate(kinds)])
    result = _KINDS.get(node.dtype)
    launches = make_plan(device, len(kinds), Graph([node]), None, Special()).steps if result is not None else []
    kernels = [step for step in launches if isinstance(step, KernelLaunch)]
    if result is None or len(kernels) != 1 or len(kernels[0].patches) != 1:
        return None
    return _Function(kernels[0], kinds, result)
