"""The host part of `weft.cuda` under Numba CUDA's names: devices, streams, memory and errors.

Import from the files. `weft.cuda` collects their names. Loading any file of this folder adds `copy_to_host` and
related methods to arrays.
"""

from weft.dsl.cuda import array_methods as methods

_installed = methods
