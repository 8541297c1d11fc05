"""Errors of the kernel language: the user's file, line and caret, what is wrong, and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from weft.runtime import WeftError, show_cell


def suggestion(name: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of a message."""
    found = get_close_matches(name, list(known), 1, 0.7)
    return f"; did you mean {found[0]!r}?" if found else ""


@dataclass(frozen=True, slots=True)
class Place:
    """A piece of the user's source: file, line (from 1), columns (from 0) and the line's text."""

    file: str
    line: int
    column: int
    end: int
    text: str

    def show(self) -> str:
        """The place as Python's own errors show one."""
        stripped = self.text.strip()
        shift = len(self.text) - len(self.text.lstrip())
        width = max(self.end - self.column, 1)
        caret = " " * max(self.column - shift, 0) + "^" * min(width, max(len(stripped) - self.column + shift, 1))
        where = show_cell(self.file) or f'File "{self.file}"'
        return f"  {where}, line {self.line}\n    {stripped}\n    {caret}"


class KernelError(WeftError):
    """A kernel cannot be compiled or run as it stands.

    Attributes
    ----------
    place : Place or None
        Where in the user's source.
    """

    def __init__(self, message: str, place: Place | None = None, calls: tuple[Place, ...] = ()) -> None:
        self.message = message
        self.place = place
        called = "".join(f"\n{call.show()}\n  which calls" for call in calls)
        super().__init__(message if place is None else f"{message}{called}\n{place.show()}")


class KernelSyntaxError(KernelError, SyntaxError):
    """The kernel language has no such construct."""

    def __str__(self) -> str:
        return str(self.args[0])


class KernelTypeError(KernelError, TypeError):
    """Types that do not fit: operands, arguments, variables."""


class KernelNameError(KernelTypeError, NameError):
    """A name that is not defined, or not yet."""


class KernelAttributeError(KernelTypeError, AttributeError):
    """Something has no such attribute inside a kernel."""


class LaunchError(KernelError, ValueError):
    """A launch that the device cannot make: grid, block, shared memory."""
