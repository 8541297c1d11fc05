"""Layout of the failure records of user-written kernels on the CPU.

The kernel writes words 0 to 5. `faults` reads these, and sets the words `POLL` and `SHARED`. The native functions of
`interrupts` and `printing` use the other words.
"""

from __future__ import annotations

# Words: the function of interrupt polls; whether all threads must exit; the address of the shared words; the type,
# value and traceback of the exception that ended the kernel; the number of words.
POLL, STOP, SHARED, TYPE, VALUE, TRACEBACK, END = range(6, 13)
# Words shared by all launches: the main thread's ID in the C library; the time of the next check for signals; the key
# of the thread-specific jump buffer.
MAIN, NEXT, KEY = 0, 1, 2
