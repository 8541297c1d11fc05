"""Layout of the failure records of explicit kernels on the CPU, and functions that stop a running kernel.

Words 0 to 5 belong to the kernel (`faults`). This module and `interrupts` read and write the other words.
"""

from __future__ import annotations

import ctypes

# Words: the function of interrupt polls; whether all threads must exit; the address of the shared words; the exception
# that ended the kernel (type, value, traceback); the number of words.
POLL, STOP, SHARED, RAISED, END = 6, 7, 8, 9, 12
# Words shared by all launches: the main thread's ID in the C library; the time of the next check for signals; the key
# of the thread-specific jump buffer.
MAIN, NEXT, KEY = 0, 1, 2


def stop(record: int, error: BaseException) -> None:
    """Stop the kernel that has the failure record `record`, and make its launch raise an exception.

    The threads of the kernel exit at their next interrupt poll.
    """
    words = (ctypes.c_int64 * END).from_address(record)
    if words[STOP]:
        return
    for k, part in enumerate((type(error), error, error.__traceback__)):
        if part is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))
            words[RAISED + k] = id(part)
    words[STOP] = 1


def request_poll(record: int) -> None:
    """Make a running kernel check for signals at its next interrupt poll."""
    shared = ctypes.c_int64.from_address(record + 8 * SHARED).value
    if shared:
        ctypes.c_int64.from_address(shared + 8 * NEXT).value = 0
