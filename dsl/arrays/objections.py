"""What NumPy objects to and weft as well: dtypes and masks that arrays cannot have, and warnings at the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.runtime import warn_user


class UnsupportedDtypeError(TypeError):
    """Elements of a dtype that weft has no arrays of, such as text, objects, dates or records."""

    def __init__(self, dtype: Any) -> None:
        super().__init__(f"weft arrays hold bool, integers, floats (bfloat16 too) and complex numbers, not {dtype}")


class ForeignOperandError(UnsupportedDtypeError):
    """An operand of another library's type, which NumPy's dispatch asks."""

    def __init__(self) -> None:
        TypeError.__init__(self, "this operand is of another library: NumPy's function asks it")


class MaskedArrayError(UnsupportedDtypeError):
    """An array with a mask, which weft's would lose."""

    def __init__(self) -> None:
        TypeError.__init__(
            self, "weft arrays have no masks: fill the gaps first (x.filled(0)), or use numpy.ma's functions"
        )


def warn_of_lost_parts(source: np.dtype, target: np.dtype) -> None:
    """NumPy's warning where complex numbers become real ones."""
    if source.kind == "c" and target.kind not in "cb":
        warn_user("Casting complex values to real discards the imaginary part", np.exceptions.ComplexWarning)


def check_unmasked(value: Any) -> None:
    """Raise MaskedArrayError for one of numpy.ma's arrays that has a mask."""
    if type(value) is not np.ndarray and isinstance(value, np.ndarray) and hasattr(value, "_sharedmask"):
        if np.ma.getmask(value) is not np.ma.nomask:
            raise MaskedArrayError
