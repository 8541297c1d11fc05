"""Removal of weft's frames from tracebacks and from the locations of warnings."""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType, TracebackType
from typing import Any

import weft.runtime
from weft.runtime import setting

HANDLED = (Exception, KeyboardInterrupt)  # the errors that `hide_in_ipython` handles
_SHOWN = "_weft_shown"  # attribute of an error that IPython has shown
_PACKAGE = os.path.dirname(os.path.dirname(weft.runtime.__file__)) + os.sep


def is_hidden(file: str) -> bool:
    """Return whether a source file belongs to weft."""
    return file.startswith(_PACKAGE)


def hide_frames(error: BaseException) -> None:
    """Remove weft's frames from the tracebacks of an error and of the errors linked to it.

    Linked errors are causes, contexts, and the errors in a group. If all frames of a traceback belong to weft, it is
    unchanged, except for a SyntaxError, which loses its traceback.
    """
    pending, seen = [error], set[int]()
    while pending:
        error = pending.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        kept, trace = [], error.__traceback__
        while trace is not None:
            if not is_hidden(trace.tb_frame.f_code.co_filename):
                kept.append(trace)
            trace = trace.tb_next
        for here, after in pairwise([*kept, None]):
            if here is not None:
                here.tb_next = after
        if kept or isinstance(error, SyntaxError):
            error.__traceback__ = kept[0] if kept else None
        linked = (error.__cause__, error.__context__, *getattr(error, "exceptions", ()))
        pending += [one for one in linked if isinstance(one, BaseException)]


def show_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error that ends a program, without weft's frames unless the `strict` setting is on."""
    if not setting("strict"):
        hide_frames(error)
        trace = error.__traceback__
    sys.__excepthook__(kind, error, trace)


def hide_in_ipython() -> None:
    """Hide weft's frames in the errors that IPython shows, unless the user has set a custom error handler."""
    shell = sys.modules["IPython"].get_ipython()
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc(HANDLED, _show)


def mark_shown(error: BaseException) -> BaseException:
    """Mark an error as shown by IPython, so that IPython does not show it a second time."""
    error.__dict__[_SHOWN] = True
    return error


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, _: TracebackType | None, tb_offset: int | None = None
) -> None:
    hide_frames(error)
    if error.__dict__.pop(_SHOWN, False):
        return
    _add_suggestion(error)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


def _add_suggestion(error: BaseException) -> None:
    """Add a similar name to the message of an AttributeError of a weft or NumPy object."""
    if not isinstance(error, AttributeError) or len(error.args) != 1:
        return
    owner = error.obj if isinstance(error.obj, ModuleType) else type(error.obj)
    package = (owner.__name__ if isinstance(owner, ModuleType) else owner.__module__).partition(".")[0]
    close = difflib.get_close_matches(error.name or "", dir(error.obj), 1) if package in ("numpy", "weft") else []
    if close and "Did you mean" not in error.args[0]:
        error.args = (f"{error.args[0]}. Did you mean: {close[0]!r}?",)


def show_warning(message: warnings.WarningMessage, show: Callable[[warnings.WarningMessage], None]) -> None:
    """Show a warning at the line of the user's program that called weft.

    By default, Python shows a warning once for each location. The warning is therefore issued again at that line,
    subject to the filters and to the registry of shown warnings of that line's module. Warnings that do not come from
    weft's code, and all warnings if the `strict` setting is on, are passed to `show`.
    """
    frame = None if setting("strict") or not is_hidden(message.filename) else sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename, frame.f_lineno) != (message.filename, message.lineno):
        frame = frame.f_back
    inner = frame
    while frame is not None and is_hidden(frame.f_code.co_filename):
        frame = frame.f_back
    if inner is None or frame is None:
        return show(message)
    inner.f_globals["__warningregistry__"] = None  # (Python does not record which warnings of such a module were shown)
    names = frame.f_globals
    warnings.warn_explicit(
        message.message,
        message.category,
        frame.f_code.co_filename,
        frame.f_lineno,
        names.get("__name__", "<string>"),
        names.setdefault("__warningregistry__", {}),
        source=message.source,
    )
