"""Type aliases for annotations, imported only by type checkers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from weft.dsl.arrays.array import Array

__all__ = ["ArrayLike", "DTypeLike", "Function", "Output", "ShapeLike"]

Function = Callable[..., Any]
ShapeLike = int | Sequence[int]
Output = Array | np.ndarray
