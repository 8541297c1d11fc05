"""The dtypes that atomics, warp operations and cache operators support.

In: an operation, a dtype and an error class. An unsupported dtype raises an error of this class.
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


def check_atomic(name: str, dtype: np.dtype, error: type[TypeError]) -> None:
    """Raise `error` if the atomic operation `name` does not support a dtype."""
    kinds, sizes = _ATOMICS[name]
    takes = [f"{_WORDS[kind]}{8 * size}" for kind in kinds for size in sizes if kind == "f" or size > 2]
    if dtype.name not in takes:
        raise error(f"cuda.atomic.{name} takes {', '.join(takes[:-1])} and {takes[-1]}, not {dtype}")


def check_reduction(kind: str, dtype: np.dtype, error: type[TypeError]) -> None:
    """Raise `error` if the op `kind` cannot reduce a dtype across a warp."""
    if dtype_kind(dtype) not in ("iu" if kind.startswith("bitwise") else "iuf"):
        raise error(f"{kind} across a warp cannot be computed of {dtype}")


def check_match(dtype: np.dtype, error: type[TypeError]) -> None:
    """Raise `error` if `match_any_sync` and `match_all_sync` do not support a dtype."""
    if dtype_kind(dtype) == "c":
        raise error(f"match operations take real numbers, not {dtype}")


def check_hint(ndim: int, dtype: np.dtype, error: type[TypeError]) -> None:
    """Raise `error` if a cache hint cannot be used for a view, because of its rank or dtype."""
    if ndim or dtype.kind == "c":
        raise error("one element that is not complex is needed here")
