"""Reports and warnings that weft issues if it cannot plan or compile code.

In: what failed, what runs instead, and the error. Out: an `OptimizerWarning` at the user's line, which names a report in
the cache folder. Invariant: with WEFT_STRICT=1 the error is raised instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from weft.runtime.errors import OptimizerWarning, warn_user
from weft.runtime.lazy_names import lazy_names
from weft.runtime.settings import setting

# (modules for failures and for the disk cache load when they are needed: a program starts 5 ms sooner)
_find_lazy = lazy_names(
    globals(), {"hashlib": "sha256", "traceback": "format_exception", "weft.runtime.cache": "disk_cache"}
)
_T = TypeVar("_T")

# The values of `form` for which `try_compiling` has reported a failure.
_reported: set[str] = set()


def write_report(kind: str, text: str) -> str:
    """Write a report to the cache folder, and return its path. Return "" if the cache is disabled or writing fails."""
    cache = _find_lazy("disk_cache")()
    if cache is None:
        return ""
    digest = _find_lazy("sha256")(text.encode()).hexdigest()[:12]
    path = os.path.join(cache.folder, "reports", f"{kind}-{digest}.txt")
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError:
        return ""
    return path


def report_failure(form: str, instead: str, error: Exception, program: str = "") -> None:
    """Write a report on a failure, and issue a warning.

    With WEFT_STRICT=1, only raise `error`.

    Parameters
    ----------
    form : str
        What failed, for example "the optimizer".
    instead : str
        What happens instead, for example "this program is interpreted".
    error : Exception
    program : str, optional
        The program that failed, for the report.
    """
    if setting("strict"):
        raise error
    shown = "".join(_find_lazy("format_exception")(error))
    path = write_report("failure", f"{program or form}\n\n{shown}")
    warn_user(
        f"{form} failed ({type(error).__name__}: {error}), so {instead}; "
        f"the report is in {path or 'no file: the cache folder cannot be written'}. WEFT_STRICT=1 raises the error",
        OptimizerWarning,
    )


def try_compiling(form: str, instead: str, make: Callable[[], _T]) -> _T | None:
    """Return the result of `make`, or None if `make` fails.

    The first failure of each `form` is reported, and WEFT_STRICT=1 raises all errors (see `report_failure`).
    Raises MemoryError if there is not enough memory.
    """
    try:
        return make()
    except MemoryError:
        raise
    except Exception as error:
        if form not in _reported or setting("strict"):
            _reported.add(form)
            report_failure(form, instead, error)
        return None
