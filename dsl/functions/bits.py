"""NumPy's `packbits` and `unpackbits`.

In: arrays of bools or integers. Out: arrays of bytes. Operations on GPU arrays are recorded. NumPy computes the results
for other arrays, because its loops are fast, and for rare arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array
from weft.dsl.arrays.scatter import is_gpu
from weft.dsl.arrays.validation import normalize_axis
from weft.dsl.functions.manipulation import moveaxis, ravel, reshape
from weft.dsl.functions.padding import pad
from weft.dsl.functions.sorting import on_host

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike

_SHIFTS = {"big": np.arange(7, -1, -1, dtype=np.uint8), "little": np.arange(8, dtype=np.uint8)}


def _weft_computes(a: Any, kinds: str, bitorder: Any) -> bool:
    return isinstance(a, Array) and is_gpu(a.device) and a.dtype.kind in kinds and a.size > 0 and bitorder in _SHIFTS


def packbits(a: ArrayLike, /, axis: int | None = None, bitorder: str = "big") -> Any:
    """Pack truth values into bytes along an axis, one bit per value, like `numpy.packbits`.

    Examples
    --------
    >>> wf.packbits([1, 0, 1, 0, 0, 0, 0, 1, 1])
    array([161, 128], dtype=uint8)
    """
    if not _weft_computes(a, "biu", bitorder):
        return on_host(np.packbits, a, axis, bitorder)
    x: Any = ravel(a) if axis is None else a
    along = normalize_axis(0 if axis is None else axis, x.ndim)
    bits = moveaxis(x != 0, along, -1)
    bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, -bits.shape[-1] % 8)])
    parts: Any = reshape(bits, (*bits.shape[:-1], -1, 8)).astype(np.uint8)
    return moveaxis((parts << _SHIFTS[bitorder]).sum(axis=-1, dtype=np.uint8), -1, along)


def unpackbits(a: ArrayLike, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Any:
    """Unpack the bits of bytes into elements 0 and 1, like `numpy.unpackbits`.

    Examples
    --------
    >>> wf.unpackbits(np.array([161], np.uint8))
    array([1, 0, 1, 0, 0, 0, 0, 1], dtype=uint8)
    """
    if not _weft_computes(a, "u", bitorder) or a.dtype != np.uint8:  # type: ignore[union-attr]
        return on_host(np.unpackbits, a, axis, count, bitorder)
    x: Any = ravel(a) if axis is None else a
    along = normalize_axis(0 if axis is None else axis, x.ndim)
    rows = moveaxis(x, along, -1)
    found = reshape((rows[..., None] >> _SHIFTS[bitorder]) & np.uint8(1), (*rows.shape[:-1], -1))
    have = found.shape[-1]
    if count is not None:
        if count < -have:
            return on_host(np.unpackbits, a, axis, count, bitorder)
        found = found[..., : count if count >= 0 else have + count]
        found = pad(found, [(0, 0)] * (found.ndim - 1) + [(0, max(count - have, 0))])
    return moveaxis(found, -1, along)
