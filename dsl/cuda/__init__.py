"""Host interface of `weft.cuda`, under Numba CUDA's names: devices, streams, memory and errors.

Import from the files; `weft.cuda` gathers them. Whatever is used of this folder, arrays have `copy_to_host` and their kind.
"""

from weft.dsl.cuda import array_methods as methods

_installed = methods
