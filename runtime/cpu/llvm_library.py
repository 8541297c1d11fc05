"""Lazy loading of the LLVM library.

The library takes up more than a hundred megabytes of address space.

Invariant: no process forks or exits while a thread is inside the library. A child would wait forever for the
library's locks, and exit would destroy the library. A fork and the exit therefore wait for the call in progress. During
exit, only the main thread begins new calls, in the program's own exit handlers.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

from weft.runtime.uninterruptible import call_at_exit

# Messages of the loader, from the C library, if the address space is full.
_NO_ROOM = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")


@cache
def load_llvm() -> None:
    """Load the LLVM library.

    Raises MemoryError if the library does not fit into the address space. A later call tries again.
    """
    try:
        ffi = import_module("llvmlite.binding.ffi")
        lock = ffi.lib._lock  # (held around every call)
        import_module("llvmlite.binding")
    except OSError as error:
        told = f"{error} {error.__context__}"
        if any(words in told for words in _NO_ROOM):
            raise MemoryError("the address space that is left has no room for LLVM, which compiles kernels") from error
        raise
    call_at_exit(lock.__enter__)
    os.register_at_fork(before=lock.__enter__, after_in_parent=lock.__exit__, after_in_child=lock.__exit__)
