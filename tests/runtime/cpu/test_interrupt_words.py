"""Tests of the words in memory that tell kernels which thread handles signals."""

from __future__ import annotations

import ctypes
import os
import threading

from weft.runtime.cpu import fault_words, interrupts


def test_a_child_forked_by_another_thread_handles_signals_in_this_thread() -> None:
    guard = interrupts.guard()
    assert guard is not None
    main, statuses = ctypes.c_int64.from_address(guard.shared + 8 * fault_words.MAIN), []

    def fork() -> None:
        child = os.fork()
        if not child:
            os._exit(0 if main.value == threading.get_ident() else 1)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    assert statuses == [0] and main.value == threading.main_thread().ident
