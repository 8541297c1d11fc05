"""Work that Ctrl-C may not end half way: what takes locks of others' (LLVM's), and would leave them taken.

In: something to do. Out: its result. Always true: an interrupt of the main thread is raised there at once; the work goes on to
its end on a thread of its own, where no signal is handled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


def undisturbed(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises."""
    if threading.current_thread() is not threading.main_thread():
        return work()  # Python handles signals on the main thread alone
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # raised again where it was asked for
            outcome.extend((None, error))

    thread = threading.Thread(target=run, name="weft-undisturbed")
    try:
        thread.start()
    except RuntimeError:
        return work()  # the interpreter is shutting down, and starts no threads any more
    thread.join()
    if len(outcome) > 1:
        raise outcome[1]
    result: Result = outcome[0]
    return result
