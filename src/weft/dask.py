"""weft arrays as chunks of dask arrays: ``import weft.dask`` in each process registers them with dask."""

from __future__ import annotations

from weft.dsl.dask_chunks import chunked

__all__ = ["chunked"]
