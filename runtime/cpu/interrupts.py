"""Interruption of user-written kernels by Ctrl-C.

Generated code polls for signals, and exits by longjmp if a handler raises an exception.

In: the failure record of a launch, which the kernel passes at each interrupt poll. Out: the handler's exception in the
record, with every thread outside the kernel. Invariant: only Python's main thread checks for signals, at most once per
`INTERVAL`. A thread jumps only from its own interrupt poll. Resources that an interrupted kernel obtained from the C
library are not released.
"""

from __future__ import annotations

import ctypes
import os
import threading
from array import array
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from weft.runtime.cpu import fault_words
from weft.runtime.cpu.loader import ENTRY, external_addresses
from weft.runtime.cpu.native import immortal, link_native, python_function
from weft.runtime.failures import try_compiling
from weft.runtime.llvm_files import read_llvm

INTERVAL = 50_000_000  # nanoseconds
CLOCK = 1  # the C library's monotonic clock
JUMP_BUFFER_BYTES = 512  # bytes of a jump buffer: enough for any machine

_C = ("pthread_self", "pthread_getspecific", "pthread_setspecific", "clock_gettime", "_setjmp", "longjmp")
_PYTHON = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch")
GUARD, ASKED, TICK = "weft_guard", "weft_asked", "weft_tick"


class Guard(NamedTuple):
    """Native functions that make kernels interruptible by Ctrl-C.

    `call` and `address` are an entry with the signature of a kernel. The slots of this entry are the kernel's address,
    the address of the failure record, and the kernel's own slots. `asked` and `tick` are the addresses of functions.
    The kernel calls `asked` at each interrupt poll, and the pool calls `tick` while it waits. `shared` is the address
    of the words that all launches share.
    """

    call: Callable[[int, int, int], None]
    address: int
    asked: int
    tick: int
    shared: int


@cache
def guard() -> Guard | None:
    """Return the native functions that make kernels interruptible, or None if they are unavailable."""
    key = ctypes.c_uint()
    if ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None):
        return None

    def link() -> list[int]:
        outside = external_addresses(_C) | {name: python_function(name) for name in _PYTHON}
        return link_native(text(), outside, (GUARD, ASKED, TICK))

    linked = try_compiling("native code for interrupts", "Ctrl-C does not end kernels", link)
    if linked is None:
        return None
    entry, asked, tick = linked
    words = immortal(array("q", (threading.main_thread().ident or 0, 0, key.value)))
    os.register_at_fork(after_in_child=lambda: words.__setitem__(fault_words.MAIN, threading.get_ident()))
    return Guard(ENTRY(entry), entry, asked, tick, words.buffer_info()[0])


def raise_again(words: array[int]) -> None:
    """Raise the Python exception that stopped a kernel. The array `words` is the failure record of the launch, which contains the exception."""
    restore: Any = ctypes.pythonapi.PyErr_Restore
    restore.argtypes = (ctypes.c_void_p,) * 3
    restore.restype = None
    restore(*(word or None for word in words[fault_words.TYPE : fault_words.END]))


def text() -> str:
    """Return the LLVM text of the functions `GUARD`, `ASKED` and `TICK`."""
    return read_llvm(__file__, "interrupts", {**vars(fault_words), **globals()})
