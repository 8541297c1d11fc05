"""weft arrays as chunks of dask arrays: ``weft.dask.chunked(x)``."""

from __future__ import annotations

from weft.dsl.dask_chunks import chunked

__all__ = ["chunked"]
