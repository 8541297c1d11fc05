"""The host face of `weft.cuda`: devices, streams, memory, errors, under the names that Numba CUDA's users know.

Import from the files; `weft.cuda` gathers them. Whatever is used of this folder, arrays have `copy_to_host` and their kind.
"""

from weft.dsl.cuda import array_methods as methods

_installed = methods
