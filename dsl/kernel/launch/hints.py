"""How a host array travels to a kernel and back: `In`, `Out`, `InOut`."""

from __future__ import annotations

from typing import Any


class ArgHint:
    """A kernel's argument, and which way it is copied.

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
    """Copied to the device only; what the kernel writes is lost."""

    __slots__ = ()
    copies_out = False


class Out(ArgHint):
    """Copied back only; the kernel finds elements that are not set."""

    __slots__ = ()
    copies_in = False


class InOut(ArgHint):
    """Copied to the device and back, as a host array without a hint is, but without the warning."""

    __slots__ = ()
