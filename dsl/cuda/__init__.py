"""The host face of `weft.cuda`: devices, streams, memory, errors, under the names that Numba CUDA's users know.

Import from the files; `weft.cuda` gathers them.
"""
