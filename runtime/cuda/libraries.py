"""NVIDIA's libraries of mathematical functions, through the bindings of nvmath-python.

In: the name of a library, and calls of its functions. Out: the bindings, and results. Invariant: a failure of a library
is a CudaError that names the function, and calls run in the context of the device.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from weft.runtime.cuda.driver import Driver
from weft.runtime.errors import CudaError, PerformanceWarning, warn_user

MISSING = "NumPy computes {}'s functions on the host: {} (pip install 'weft[nvmath]')"


def load_bindings(driver: Driver, module: str, title: str) -> Any:
    """Return the bindings of a library, or None with a warning if they or the library are not installed."""
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
    """Call a function of a library in the context of the device. Raises CudaError if it fails."""
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
