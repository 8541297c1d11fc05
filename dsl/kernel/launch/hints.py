"""Argument hints `In`, `Out` and `InOut`: whether a launch copies a host array to the device, back, or both."""

from __future__ import annotations

from typing import Any


class ArgHint:
    """A host array as a kernel argument, with a hint that tells in which directions to copy the array.

    Attributes
    ----------
    value
        The host array.
    copies_in, copies_out : bool
        Whether the array is copied to the device before the kernel runs, and back afterwards.
    """

    __slots__ = ("value",)
    copies_in = True
    copies_out = True

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"cuda.{type(self).__name__}({self.value!r})"


class In(ArgHint):
    """A host array that is copied to the device before the launch, but not back, so that the kernel's writes are lost.

    Examples
    --------
    >>> @cuda.jit
    ... def double(x, y):
    ...     i = cuda.grid(1)
    ...     y[i] = 2 * x[i]
    >>> x, y = np.ones(4), np.zeros(4)
    >>> double[1, 4](cuda.In(x), cuda.Out(y))
    >>> y
    array([2., 2., 2., 2.])
    """

    __slots__ = ()
    copies_out = False


class Out(ArgHint):
    """A host array that is not copied to the device before the launch, but is copied back after the launch.

    The kernel starts with uninitialized elements.

    Examples
    --------
    >>> @cuda.jit
    ... def double(x, y):
    ...     i = cuda.grid(1)
    ...     y[i] = 2 * x[i]
    >>> x, y = np.ones(4), np.zeros(4)
    >>> double[1, 4](cuda.In(x), cuda.Out(y))
    >>> y
    array([2., 2., 2., 2.])
    """

    __slots__ = ()
    copies_in = False


class InOut(ArgHint):
    """A host array that is copied to the device before the launch, and back after the launch.

    A host array without a hint is copied in the same way, with a warning.

    Examples
    --------
    >>> @cuda.jit
    ... def double(x, y):
    ...     i = cuda.grid(1)
    ...     y[i] = 2 * x[i]
    >>> x, y = np.ones(4), np.zeros(4)
    >>> double[1, 4](cuda.In(x), cuda.InOut(y))
    >>> y
    array([2., 2., 2., 2.])
    """

    __slots__ = ()
