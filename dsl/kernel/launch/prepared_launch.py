"""Cache of a configured kernel's launches.

In: the arguments of a launch. Out: the launch's 64-bit words, in which only addresses and numbers are new. Invariant:
the signature contains everything that a specialization depends on, so a cached launch uses the right specialization.
A launch is cached only if all arguments are weft arrays, Python ints and floats, with at least one array.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from weft.dsl.arrays.array import Array
from weft.dsl.kernel.launch.arguments import flatten_numbers, words_of
from weft.fusion import exclusive, realise
from weft.runtime import Listening, setting

if TYPE_CHECKING:
    from weft.dsl.kernel.language.specialize import Specialization
    from weft.dsl.kernel.launch.dispatcher import ConfiguredKernel

LIMIT = 256  # maximum number of signatures per launcher


def signature_of(launcher: ConfiguredKernel, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the cache key of a kernel launch, or None if the launch must not be cached.

    Launches are not cached while profilers or other listeners are active, or if the program has created streams on the
    device.
    """
    parts: list[Any] = [launcher.kernel.generation, setting("checked")]
    device = None
    for value in given:
        kind = type(value)
        if kind is Array:
            storage = value._storage
            if storage.device is not device:
                if device is not None:
                    return None
                device = storage.device
            parts.append((storage.dtype, storage.shape, value._view))
        elif kind is float or (kind is int and -(2**63) <= value < 2**63):
            parts.append(kind)
        else:
            return None
    if device is None or device.streaming or Listening.listeners:
        return None
    parts.append(device)
    return tuple(parts)


class PreparedLaunch:
    """A cached kernel launch, which can be repeated with other addresses and scalars.

    `function` is the kernel, loaded on the device. `given` and `items` are the arguments of the first launch, and their
    64-bit words.
    """

    __slots__ = ("_arrays", "_function", "_items", "_numbers", "_owned", "_prepared")

    def __init__(
        self, launcher: ConfiguredKernel, found: Specialization, function: Any, given: tuple[Any, ...], items: list[int]
    ) -> None:
        self._function = function
        device = next(value._storage.device for value in given if type(value) is Array)
        shape = launcher.grid, launcher.block, launcher.shared_bytes
        self._prepared = device.prepare_grid(function, *shape, len(items))
        self._items = items
        self._owned = sorted(k for k in found.written if type(given[k]) is Array)
        self._arrays: list[tuple[int, int, int]] = []  # argument, item, offset in bytes
        self._numbers: list[tuple[int, int, Any]] = []  # argument, item, descriptor
        at = 0
        for k, (value, descriptor) in enumerate(zip(given, found.descriptors, strict=True)):
            if type(value) is Array:
                offset = 0 if value._view is None else value._view[2] * value._storage.dtype.itemsize
                self._arrays.append((k, at, offset))
            else:
                self._numbers.append((k, at, descriptor))
            at += words_of(descriptor)

    def launch(self, launcher: ConfiguredKernel, given: tuple[Any, ...]) -> None:
        """Launch the kernel with arguments that match those of the cached launch."""
        owned = {given[k]._storage: exclusive(given[k]._storage).address for k in self._owned}
        items = self._items[:]
        for k, at, offset in self._arrays:
            storage = given[k]._storage
            address = owned.get(storage)  # (an array that is passed twice has a single address)
            items[at] = (realise(storage).address if address is None else address) + offset
        for k, at, descriptor in self._numbers:
            number: list[int] = []
            flatten_numbers(given[k], descriptor, number)
            items[at : at + len(number)] = number
        if self._prepared is not None:
            self._prepared.run(items, launcher.stream)
        else:
            storage.device.launch_grid(
                self._function, launcher.grid, launcher.block, launcher.shared_bytes, array("q", items), launcher.stream
            )
