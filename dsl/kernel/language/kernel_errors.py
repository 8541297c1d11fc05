"""Errors of the kernel language."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from weft.runtime import WeftError, public_error, show_cell


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the part of an error message that suggests a similar name, or "" if there is none."""
    found = get_close_matches(name, list(known), 1, 0.7)
    return f"; did you mean {found[0]!r}?" if found else ""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A location in the user's source code: file, line, columns and the text of the line.

    Lines count from 1, and columns from 0.
    """

    file: str
    line: int
    column: int
    end: int
    text: str

    def show(self) -> str:
        """Return the location as text, in the format of Python's error messages."""
        where = show_cell(self.file) or f'File "{self.file}"'
        if not self.text:
            return f"  {where}, line {self.line}"
        stripped = self.text.strip()
        shift = len(self.text) - len(self.text.lstrip())
        width = max(self.end - self.column, 1)
        caret = " " * max(self.column - shift, 0) + "^" * min(width, max(len(stripped) - self.column + shift, 1))
        return f"  {where}, line {self.line}\n    {stripped}\n    {caret}"


@public_error
class KernelError(WeftError):
    """Raised for a kernel that cannot be compiled or run.

    Attributes
    ----------
    message : str
        The message without the source location.
    place : SourceLocation or None
        The location in the source code of the kernel.

    Examples
    --------
    >>> @wf.kernel
    ... def fill(x):
    ...     x[0] = y
    >>> try:
    ...     fill[1, 1](np.zeros(1))
    ... except wf.KernelError as error:
    ...     print(error.message)
    name 'y' is not defined
    """

    def __init__(
        self, message: str, place: SourceLocation | None = None, calls: tuple[SourceLocation, ...] = ()
    ) -> None:
        self.message = message
        self.place = place
        called = "".join(f"\n{call.show()}\n  which calls" for call in calls)
        super().__init__(message if place is None else f"{message}{called}\n{place.show()}")


@public_error
class KernelSyntaxError(KernelError, SyntaxError):
    """Raised for Python syntax that the kernel language does not support.

    Examples
    --------
    >>> @wf.kernel
    ... def fill(x):
    ...     with x:
    ...         x[0] = 1
    >>> fill[1, 1](np.zeros(1))
    Traceback (most recent call last):
        ...
    weft.KernelSyntaxError: with is not part of the kernel language: ...
    """

    def __str__(self) -> str:
        return str(self.args[0])


@public_error
class KernelTypeError(KernelError, TypeError):
    """Raised for values of unsuitable types, and for other operations that a kernel cannot execute.

    Examples
    --------
    >>> @wf.kernel
    ... def fill(x):
    ...     x[0, 0] = 1
    >>> fill[1, 1](np.zeros(1))
    Traceback (most recent call last):
        ...
    weft.KernelTypeError: too many indices: x has 1 axis, but 2 were indexed
    ...
    """


@public_error
class KernelNameError(KernelTypeError, NameError):
    """Raised if a kernel uses an undefined name, or a name to which no value has been assigned yet.

    Examples
    --------
    >>> @wf.kernel
    ... def fill(x):
    ...     x[0] = y
    >>> fill[1, 1](np.zeros(1))
    Traceback (most recent call last):
        ...
    weft.KernelNameError: name 'y' is not defined
    ...
    """


@public_error
class KernelAttributeError(KernelTypeError, AttributeError):
    """Raised for an attribute that is not supported inside a kernel.

    Examples
    --------
    >>> @wf.kernel
    ... def fill(x):
    ...     x[0] = x.sixe
    >>> fill[1, 1](np.zeros(1))
    Traceback (most recent call last):
        ...
    weft.KernelAttributeError: arrays have no attribute 'sixe' inside a kernel; did you mean 'size'? ...
    """


@public_error
class LaunchError(KernelError, ValueError):
    """Raised for an invalid launch configuration, and for local or shared arrays that are too large.

    Examples
    --------
    >>> @wf.kernel
    ... def fill(x):
    ...     x[cuda.grid(1)] = 1
    >>> fill[1, 2048](np.zeros(2048))
    Traceback (most recent call last):
        ...
    weft.LaunchError: the block has 2048 threads along x; the limit is 1024
    """


@public_error
class DivergenceError(KernelError, RuntimeError):
    """Raised in Python mode if threads wait for each other at different source locations.

    A compiled kernel on the CPU raises `KernelFault` instead.

    Examples
    --------
    >>> @wf.kernel
    ... def swap(x):
    ...     if cuda.threadIdx.x == 0:
    ...         cuda.syncthreads()  # the other thread waits at another barrier
    ...     else:
    ...         cuda.syncwarp()
    ...     x[cuda.threadIdx.x] += 1
    >>> try:
    ...     swap[1, 2](np.zeros(2))
    ... except (wf.DivergenceError, wf.KernelFault):  # with and without WEFT_KERNEL_PYTHON=1
    ...     print("the threads wait for each other")
    the threads wait for each other
    """
