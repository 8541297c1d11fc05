"""The dtypes that atomics, warp operations and cache operators support.

In: an operation and a dtype. Out: the message of an error, or None.
"""

from __future__ import annotations

import numpy as np

from weft.codegen import dtype_kind

# name -> supported dtype kinds and item sizes; only floats may have 2 bytes
_ATOMICS: dict[str, tuple[str, tuple[int, ...]]] = {
    **dict.fromkeys(("add", "sub"), ("iuf", (2, 4, 8))),
    **dict.fromkeys(("min", "max", "nanmin", "nanmax", "exch", "cas", "load"), ("iuf", (4, 8))),
    **dict.fromkeys(("and_", "or_", "xor"), ("iu", (4, 8))),
    **dict.fromkeys(("inc", "dec"), ("u", (4, 8))),
}
_WORDS = {"i": "int", "u": "uint", "f": "float"}


def reject_atomic(name: str, dtype: np.dtype) -> str | None:
    """Return an error message if the atomic operation `name` does not support a dtype, otherwise return None."""
    kinds, sizes = _ATOMICS[name]
    takes = [f"{_WORDS[kind]}{8 * size}" for kind in kinds for size in sizes if kind == "f" or size > 2]
    if dtype.name in takes:
        return None
    return f"cuda.atomic.{name} takes {', '.join(takes[:-1])} and {takes[-1]}, not {dtype}"


def reject_reduction(kind: str, dtype: np.dtype) -> str | None:
    """Return an error message if the op `kind` cannot reduce a dtype across a warp, or None."""
    sort = dtype_kind(dtype)
    if sort in "iu" or (sort == "f" and not kind.startswith("bitwise")):
        return None
    return f"{kind} across a warp cannot be computed of {dtype}"


def reject_match(dtype: np.dtype) -> str | None:
    """Return an error message if `match_any_sync` and `match_all_sync` do not support a dtype, otherwise return None."""
    return f"match operations take real numbers, not {dtype}" if dtype_kind(dtype) == "c" else None


def reject_hint(ndim: int, dtype: np.dtype) -> str | None:
    """If cache operators do not support a view of the given rank and dtype, return an error message. Otherwise, return None."""
    return "one element that is not complex is needed here" if ndim or dtype.kind == "c" else None
