"""NVIDIA's mathematical libraries, which are called through nvmath-python's bindings.

In: the name of a library, and calls to its functions. Out: the bindings, and results. Invariant: a failure of a library
is a CudaError that names the function, and calls run in the context of the device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.streams import StreamOrder
from weft.runtime.device import Buffer
from weft.runtime.errors import CudaError, PerformanceWarning, warn_user

MISSING = "NumPy computes {}'s functions on the host: {} (pip install 'weft[nvmath]')"


def load_bindings(driver: Driver, module: str, title: str) -> Any:
    """Return a library's bindings, or warn and return None if they are not installed.

    The library itself may also be missing.
    """
    try:
        found = import_module(f"nvmath.bindings.{module}")
        call_library(driver, found, title, "destroy", call_library(driver, found, title, "create"))
    except CudaError:
        raise
    except (ImportError, RuntimeError) as error:  # no bindings, or no library that they can load
        warn_user(MISSING.format(title, error), PerformanceWarning)
        return None
    return found


def call_library(driver: Driver, library: Any, title: str, name: str, *arguments: Any) -> Any:
    """Call a library function in the context of the device.

    Raises CudaError if the function fails.
    """
    driver.call("cuCtxPushCurrent", driver.context)
    try:
        return getattr(library, name)(*arguments)
    except Exception as error:  # (a class of each library's bindings)
        code = getattr(error, "status", None)
        if code is None:
            raise
        raise CudaError(f"{title}'s {name}", int(code), str(error)) from error
    finally:
        driver.call("cuCtxPopCurrent")


class DeviceLibrary:
    """Base class for the NVIDIA libraries of one device.

    Subclasses define the name of the library and the name of its bindings.

    Parameters
    ----------
    driver : Driver
    order : StreamOrder
    allocate : callable
        Allocates a buffer with a given number of bytes in the stream of the calling thread.
    library : optional
        The bindings. By default, those of nvmath-python; tests pass a stand-in.
    """

    BINDINGS: ClassVar[str]
    TITLE: ClassVar[str]

    def __init__(
        self, driver: Driver, order: StreamOrder, allocate: Callable[[int], Buffer], library: Any = None
    ) -> None:
        self._driver = driver
        self._order = order
        self._allocate = allocate
        self._library = library
        self._lock = threading.Lock()

    def is_available(self) -> bool:
        """Return whether the library is installed, and warn if it is missing.

        Only the first call issues the warning.
        """
        if self._library is None:
            self._library = load_bindings(self._driver, self.BINDINGS, self.TITLE) or False
        return self._library is not False

    def _call(self, name: str, *arguments: Any) -> Any:
        return call_library(self._driver, self._library, self.TITLE, name, *arguments)
