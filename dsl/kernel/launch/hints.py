"""Argument hints `In`, `Out` and `InOut` for the copying of host arrays."""

from __future__ import annotations

from typing import Any


class ArgHint:
    """A host array as a kernel argument, with the directions in which its elements are copied.

    `copies_in` tells whether the array is copied to the device before the kernel runs, and `copies_out` whether it is
    copied back afterwards. On the CPU, the kernel uses the array itself, or a copy if `copies_out` is false.
    """

    copies_in = True
    copies_out = True

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"cuda.{type(self).__name__}({self.value!r})"


class In(ArgHint):
    """A host array that is copied to the device before a launch but not back.

    Writes by the kernel are lost.

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

    copies_out = False


class Out(ArgHint):
    """A host array that is copied back after a launch, but not to the device before the launch.

    On a GPU, the kernel starts with uninitialized elements. On the CPU, it uses the array itself.

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

    copies_in = False


class InOut(ArgHint):
    """A host array that is copied to the device before a launch, and back after the launch.

    On a GPU, a host array without a hint is copied in the same way, with a warning. On the CPU, the kernel uses the
    array itself.

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
