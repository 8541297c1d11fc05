"""NVIDIA's mathematical libraries, called through nvmath-python's bindings.

In: the name of a library, and calls to its functions. Out: the bindings, and results. Invariant: a failure of a library
is a CudaError that names the function, and calls run in the context of the device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar

from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.streams import StreamOrder
from weft.runtime.device import Buffer
from weft.runtime.errors import CudaError, PerformanceWarning, WeftError, warn_user
from weft.runtime.fork_locks import renew_in_children

MISSING = "NumPy computes {}'s functions on the host: {} (pip install 'weft[nvmath]')"


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
        renew_in_children(self, threading.Lock)

    def is_available(self) -> bool:
        """Return whether the library is installed, and warn if it is missing.

        Only the first call issues the warning.
        """
        if self._library is None:
            self._library = self._load()
        return self._library is not False

    def _load(self) -> Any:
        """Return the library's bindings, or False if they or the library itself are not installed."""
        try:
            found = import_module(f"nvmath.bindings.{self.BINDINGS}")
            self._call_of(found, "destroy", self._call_of(found, "create"))
        except CudaError:
            raise
        except (ImportError, RuntimeError) as error:  # no bindings, or no library that they can load
            warn_user(MISSING.format(self.TITLE, error), PerformanceWarning)
            return False
        return found

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._call_of(self._library, name, *arguments)

    def _release(self, name: str, *arguments: Any) -> None:
        """Call a library function from a destructor, where no exception may be raised."""
        if not (self._driver.lost or self._driver.silent):
            with suppress(WeftError):
                self._call(name, *arguments)

    def _call_of(self, library: Any, name: str, *arguments: Any) -> Any:
        """Call a library function in the context of the device. Raises CudaError if the function fails."""
        try:
            return self._driver.within(getattr(library, name), *arguments)
        except Exception as error:  # (each library's bindings have an error class of their own)
            code = getattr(error, "status", None)
            if code is None:
                raise
            raise CudaError(f"{self.TITLE}'s {name}", int(code), str(error)) from error
