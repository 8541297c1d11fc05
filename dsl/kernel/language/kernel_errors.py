"""Errors of the kernel language, with the user's source line and a remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from weft.runtime import WeftError, public_error, show_cell


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the closest known name as the end of a message, or an empty string."""
    found = get_close_matches(name, list(known), 1, 0.7)
    return f"; did you mean {found[0]!r}?" if found else ""


@dataclass(frozen=True, slots=True)
class Place:
    """A source location: file, line (from 1), columns (from 0) and the line's text."""

    file: str
    line: int
    column: int
    end: int
    text: str

    def show(self) -> str:
        """Return the location as Python's own errors show it."""
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
    place : Place or None
        The location in the user's source.
    """

    def __init__(self, message: str, place: Place | None = None, calls: tuple[Place, ...] = ()) -> None:
        self.message = message
        self.place = place
        called = "".join(f"\n{call.show()}\n  which calls" for call in calls)
        super().__init__(message if place is None else f"{message}{called}\n{place.show()}")


@public_error
class KernelSyntaxError(KernelError, SyntaxError):
    """Raised for a construct that the kernel language does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


@public_error
class KernelTypeError(KernelError, TypeError):
    """Raised for operands, arguments or variables of incompatible types."""


@public_error
class KernelNameError(KernelTypeError, NameError):
    """Raised for a name that is not defined, or not defined yet."""


@public_error
class KernelAttributeError(KernelTypeError, AttributeError):
    """Raised for an attribute that does not exist inside a kernel."""


@public_error
class LaunchError(KernelError, ValueError):
    """Raised for a grid, block or shared memory size that the device cannot launch."""


@public_error
class DivergenceError(KernelError, RuntimeError):
    """Raised if threads wait for each other at different source locations and none can continue."""
