"""Layout of the record in which an explicit kernel on the CPU reports a failure.

Other words of the record stop the kernel.

Words 0 to 5 belong to the kernel (`faults`). The others are read and written here and in `interrupts`.
"""

from __future__ import annotations

import ctypes

# The function that a kernel asks whether to go on; whether all threads are to go; the words below; the exception that ended the
# kernel: type, value, traceback; how many words there are.
ASK, STOP, SHARED, RAISED, END = 6, 7, 8, 9, 12
# Words that all launches share: the main thread as the C library names it; when to look for signals again; under which key a
# thread has the place that it jumps to.
MAIN, NEXT, KEY = 0, 1, 2


def stop(record: int, error: BaseException) -> None:
    """Stop the kernel whose record is at this address, with an exception.

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


def look_soon(record: int) -> None:
    """Make a kernel check for signals at its next interrupt poll."""
    shared = ctypes.c_int64.from_address(record + 8 * SHARED).value
    if shared:
        ctypes.c_int64.from_address(shared + 8 * NEXT).value = 0
