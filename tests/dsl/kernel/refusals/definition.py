"""A refusal: an invalid or unsupported program, with its expected error.

The comment ``# here`` marks the line that the error must name. In a program without this comment, the error need not
name a line, for example since the launch is invalid.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SYNTAX = "KernelSyntaxError"
TYPE = "KernelTypeError"
LAUNCH = "LaunchError"


@dataclass(frozen=True)
class Refusal:
    """A function, its arguments and launch, and the expected error.

    `errors` are the names of the permitted errors, and `pattern` matches the message.
    """

    function: Callable[..., Any]
    errors: tuple[str, ...]
    pattern: str
    arguments: tuple[Any, ...]
    launch: tuple[Any, ...]
    options: dict[str, Any]
    keywords: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.function.__name__

    @property
    def line(self) -> int | None:
        """Return the line number of the invalid line, or None if no line is marked."""
        lines, first = inspect.getsourcelines(self.function)
        marked = [first + k for k, text in enumerate(lines) if text.rstrip().endswith("# here")]
        return marked[0] if marked else None


REFUSALS: list[Refusal] = []


def refused(
    errors: str | tuple[str, ...],
    pattern: str,
    *arguments: Any,
    launch: tuple[Any, ...] = (1, 1),
    options: dict[str, Any] | None = None,
    **keywords: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds a function to `REFUSALS`.

    Without `arguments`, a float64 array is the only positional argument.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        given = arguments or (np.arange(8.0),)
        names = (errors,) if isinstance(errors, str) else errors
        REFUSALS.append(Refusal(function, names, pattern, given, launch, options or {}, keywords))
        return function

    return enter
