"""Compilation and loading of kernels, with caches in memory and on disk.

In: a device and a kernel. Out: the result of `Device.load` for its code. The caches identify the code by a digest of
the kernel's text form, the target, and the version of the code generator.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.runtime import (
    Device,
    building,
    disk_cache,
    kernel_number,
    key_material,
    renew_in_children,
    setting,
    source_digest,
)

if TYPE_CHECKING:
    from weft.codegen.kernel_ir.operation import Kernel
    from weft.codegen.target import Target


class CodeCache:
    """A cache of at most `limit` functions, which evicts the least recently used function.

    Threads that need the same function share one build, which runs outside the cache's lock. If the build fails, each
    waiting thread in turn builds the function itself. A forked child does not wait for threads that exist only in its
    parent.
    """

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._found: OrderedDict[Any, Any] = OrderedDict()
        # the building thread holds the lock, and other threads wait for it (a finalizer in the same thread builds by
        # itself)
        self._building: dict[Any, threading.RLock] = {}
        self._lock = threading.RLock()
        renew_in_children(self)
        renew_in_children(self, dict, "_building")  # (the child lacks the threads that build)

    def get(self, key: object) -> Any | None:
        """Return the function for a key, or None if it is not cached."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
            return None

    def get_or_build(self, key: object, build: Callable[[], Any]) -> Any:
        """Return the function for `key`. On a cache miss, build and cache it first.

        If a build fails or returns None, the next caller tries it again.
        """
        with self._lock:
            if (found := self.get(key)) is not None:
                return found
            lock = self._building.setdefault(key, threading.RLock())
        with lock:  # (Python releases the lock wherever Ctrl-C arrives; a ``finally`` block guarantees less)
            made = self.get(key)
            try:
                if made is None:
                    made = build()
            finally:
                with self._lock:
                    self._building.pop(key, None)
                    if made is not None:
                        self._found[key] = made
                        if len(self._found) > self._limit:
                            self._found.popitem(last=False)
            return made


_functions = CodeCache()


class CompileCounts:
    """Counter of the kernels that this process compiled instead of loading them from a cache."""

    compiled = 0


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return a digest of the code generator's source, by which the cache distinguishes versions."""
    return source_digest(os.path.dirname(__file__))


def _print_kernel(kernel: Kernel) -> str:
    # (loaded kernels are not printed)
    text: str = import_module("weft.codegen.kernel_ir.text").print_kernel(kernel)
    return text


def kernel_digest(target: Target, kernel: Kernel) -> str:
    """Return the digest by which the caches identify the code of a kernel for a target."""
    return hashlib.sha256(_key(target, _print_kernel(kernel))).hexdigest()


def is_loaded(device: Device, digest: str) -> bool:
    """Return whether the function of the kernel with digest `digest` is in memory."""
    return _functions.get((device.name, digest)) is not None


def _key(target: Target, text: str) -> bytes:
    return key_material(target, f"{code_version()}\n{text}")


def obtain_function(device: Device, kernel: Kernel, digest: str = "") -> Any:
    """Return the loaded function of `kernel` on `device`, from a cache or newly compiled."""
    digest = digest or kernel_digest(device.target, kernel)

    def build() -> Any:
        code = obtain_code(device.target, kernel, _print_kernel(kernel))
        with building(kernel.name, code.target, "load", kernel_number(digest)):
            return device.load(code)

    return _functions.get_or_build((device.name, digest), build)


def find_function(device: Device, digest: str) -> Any | None:
    """Return the function with digest `digest` from memory or the disk cache, or None."""

    def build() -> Any | None:
        cache = disk_cache()
        code = cache.find(digest) if cache is not None else None
        if code is None:
            return None
        with building(code.entry, code.target, "load", kernel_number(digest)):
            return device.load(code)

    return _functions.get_or_build((device.name, digest), build)


def obtain_code(target: Target, kernel: Kernel, text: str) -> Any:
    """Return the object code of `kernel` for `target`, from the disk cache or newly compiled."""
    cache = disk_cache()
    key = _key(target, text)
    code = cache.get(key) if cache is not None else None
    if code is not None and not setting("debug") and not setting("dump"):
        return code
    compiler = import_module("weft.codegen.compile")  # (code from disk does not need it)
    compiler.show_stages(target, kernel, text)
    if code is None:
        CompileCounts.compiled += 1
        with building(kernel.name, target.name, "compile", kernel_number(hashlib.sha256(key).hexdigest())):
            code = compiler.compile_kernel(kernel, target)
        if cache is not None:
            cache.put(key, code)
    return code
