"""The installed version of NumPy. Where versions of NumPy differ, weft does what the installed one does.

In: a version. Out: whether the installed NumPy is older, and NumPy's deprecation warnings.
"""

from __future__ import annotations

import numpy as np

from weft.runtime import warn_user

NUMPY_VERSION = tuple(int(part) for part in np.__version__.split(".")[:2])


def warn_deprecation(since: tuple[int, int], message: str) -> None:
    """Emit a DeprecationWarning at the user's line if the installed NumPy is of version `since` or later."""
    if since <= NUMPY_VERSION:
        warn_user(message, DeprecationWarning)
