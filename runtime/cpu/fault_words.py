"""Layout of the failure records of user-written kernels on the CPU.

Words 0 to 5 belong to the kernel (`faults`). `interrupts` and `printing` read and write the other words.
"""

from __future__ import annotations

# Words: the function of interrupt polls; whether all threads must exit; the address of the shared words; the exception
# that ended the kernel; the number of words.
POLL, STOP, SHARED, TYPE, VALUE, TRACEBACK, END = range(6, 13)
# Words shared by all launches: the main thread's ID in the C library; the time of the next check for signals; the key
# of the thread-specific jump buffer.
MAIN, NEXT, KEY = 0, 1, 2
