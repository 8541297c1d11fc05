"""Copy directions of host arrays passed to kernels: `In`, `Out`, `InOut`."""

from __future__ import annotations

from typing import Any


class ArgHint:
    """A kernel argument with a copy direction.

    Attributes
    ----------
    value
        The host array.
    copies_in, copies_out : bool
        Whether it is copied to the device before the kernel, and back after it.
    """

    __slots__ = ("value",)
    copies_in = True
    copies_out = True

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"cuda.{type(self).__name__}({self.value!r})"


class In(ArgHint):
    """An argument copied to the device only. The kernel's writes are lost."""

    __slots__ = ()
    copies_out = False


class Out(ArgHint):
    """An argument copied back only. It is uninitialised in the kernel."""

    __slots__ = ()
    copies_in = False


class InOut(ArgHint):
    """An argument copied to the device and back, like a host array without a hint but without the warning."""

    __slots__ = ()
