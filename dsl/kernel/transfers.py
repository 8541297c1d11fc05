"""How NumPy arrays that are passed to kernels are copied: `In`, `Out` and `InOut`."""

from __future__ import annotations

from typing import Any


class Transfer:
    """A host array, and which way it is copied around a launch."""

    __slots__ = ("back", "there", "value")

    def __init__(self, value: Any, there: bool, back: bool) -> None:
        self.value = value.value if isinstance(value, Transfer) else value
        self.there = there
        self.back = back


def In(value: Any) -> Transfer:
    """Copy an array to the device before the kernel, and not back."""
    return Transfer(value, True, False)


def Out(value: Any) -> Transfer:
    """Copy an array back after the kernel, and not to the device before."""
    return Transfer(value, False, True)


def InOut(value: Any) -> Transfer:
    """Copy an array to the device before the kernel, and back after it."""
    return Transfer(value, True, True)
