"""Layout of the failure records of user-written kernels on the CPU.

Words 0 to 5 belong to the kernel (`faults`). `interrupts` and `printing` read and write the other words.
"""

from __future__ import annotations

# Words: the function of interrupt polls; whether all threads must exit; the address of the shared words; the exception
# that ended the kernel (type, value, traceback); the number of words.
POLL, STOP, SHARED, RAISED, END = 6, 7, 8, 9, 12
# Words shared by all launches: the main thread's ID in the C library; the time of the next check for signals; the key
# of the thread-specific jump buffer.
MAIN, NEXT, KEY = 0, 1, 2
