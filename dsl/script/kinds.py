"""Properties of NumPy functions that determine how a script calls them."""

from __future__ import annotations

from enum import IntEnum
from sys import getrefcount
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from weft.dsl.arrays.array import adopt_new
from weft.dsl.arrays.on_host import ALONE, adopt_array, from_host_if_large
from weft.dsl.immediate.at_call import COMMON, COPIED, from_numpy_result
from weft.dsl.immediate.small_work import GROWING
from weft.runtime import FIXED, IMMEDIATE, default_device


class MemoryEffect(IntEnum):
    """The effect of a function on memory."""

    COMPUTE = 0  # any other function
    CREATE = 1  # its integer arguments are lengths
    VIEW = 2  # its results may be views of its arguments, which it does not change
    WRITE = 3  # it writes to its first argument
    DRAW = 4  # it creates arrays from sequences, files and random numbers


def is_computed(name: str, kind: MemoryEffect) -> bool:
    """Return whether a function computes new array elements. Return False if its result may be much larger than its arguments.

    NumPy executes such a function for NumPy arrays up to the size limit of immediate execution.
    """
    return kind is MemoryEffect.COMPUTE and name not in GROWING


# NumPy's functions that create the same elements as weft's. The number of elements is at most the product of the sizes
# and numbers among the arguments (for `indices`, times the number of axes).
ALIKE = frozenset({"zeros", "ones", "empty", "full", "arange", "linspace", "repeat", "tile", "indices"})
_CODES = "?bBhHiIlLqQefdgFDGSUV"
NUMBERS = frozenset({bool, int, float, complex, *(np.dtype(code).type for code in "?bBhHiIlLqQefdgFDG")})
# Types of arguments that are passed to NumPy's functions unchanged.
PLAIN = NUMBERS | {NoneType, EllipsisType, slice, str, bytes, type, *(type(np.dtype(code)) for code in _CODES)}


def take(result: object, held: int = 0) -> Any:
    """Convert a large NumPy result, or the large results in a list or tuple, to weft arrays.

    Other values are unchanged. `held` is the number of references to the result that the caller keeps.
    """
    if type(result) is np.ndarray:
        size, limit = result.size, IMMEDIATE[FIXED]
        if size * size <= limit:
            return result
        own = result.base is None
        copied = size <= COPIED and type(result.base) is np.ndarray and result.base.base is None
        if size <= limit and (own or copied) and (device := default_device()).small_on_host:
            if own and result.flags.forc and (COMMON >> result.dtype.num) & 1 and result.dtype.isnative:
                return adopt_new(result, device)
            return from_numpy_result(result, device)
        alone = getrefcount(result) - held == ALONE
        return adopt_array(result, from_host_if_large) if alone else from_host_if_large(result)
    return from_host_if_large(result)
