"""The host part of `weft.cuda` under Numba CUDA's names: devices, streams, memory and errors.

weft's code imports names from the files of this folder, and `weft.cuda` collects them for users. Loading any of the
files adds `copy_to_host` and related methods to arrays.
"""

from weft.dsl.cuda import array_methods as methods

_installed = methods
