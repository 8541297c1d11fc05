"""Support for weft arrays as chunks of dask arrays.

`dsl.import_hooks` registers `weft.Array` with dask when both packages are loaded. Invariant: no array is evaluated,
except for percentiles and for tokens, which depend on the elements.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import dask.array as da
import numpy as np
from dask.array.chunk_types import register_chunk_type
from dask.array.dispatch import percentile_lookup
from dask.base import normalize_token
from dask.sizeof import sizeof

from weft.dsl.arrays.array import Array, convert


def chunked(x: Any, chunks: Any = "auto", **options: Any) -> Any:
    """Return a dask array whose chunks are weft arrays.

    Parameters
    ----------
    x : array_like or dask array
        A dask array keeps its chunk sizes; `chunks` applies to other arrays.
    chunks
        As for `dask.array.from_array`.
    **options
        Further arguments of `dask.array.from_array`.
    """
    if not isinstance(x, da.Array):
        x = da.from_array(x, chunks, asarray=False, **options)
    if isinstance(x._meta, Array):
        return x
    return x.map_blocks(convert, dtype=x.dtype, meta=convert(np.empty((0,) * x.ndim, x.dtype)))


def _percentile(a: Array, *arguments: Any, **options: Any) -> Any:
    return percentile_lookup.dispatch(np.ndarray)(np.asarray(a), *arguments, **options)


def register_chunks(module: ModuleType) -> None:
    """Make dask accept weft arrays as chunks of its arrays."""
    register_chunk_type(Array)
    percentile_lookup.register(Array, _percentile)
    # without these, workers know neither the sizes of chunks nor when to spill them, and equal arrays get different names
    sizeof.register(Array, lambda array: array.nbytes)
    normalize_token.register(Array, lambda array: ("weft.Array", normalize_token(np.asarray(array))))
