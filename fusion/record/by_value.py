"""Small arrays that kernels receive by value, as parameters.

In: a storage of a GPU whose elements are in host memory. Out: a `ValueBuffer` with the storage's current elements, to
be bound to a slot. Invariant: slots are assigned independently of the values after a few recordings, so a program whose
small arrays change reuses its plans.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.fusion.graph.statistics import STATISTICS
from weft.runtime import Buffer, Device

if TYPE_CHECKING:
    from weft.fusion.record.storage import Epoch, Storage

# Maximum bytes of an array that kernels take by value. All GPUs support 4,096 bytes of parameters per kernel (32,764
# since CUDA 12.1, but PTX for older drivers cannot use them).
MOST_BYTES = 1024
# Number of times that equal elements are bound to a new buffer after they have changed.
STEADY = 8


class ValueBuffer(Buffer):
    """A copy, in host memory, of the elements of a small array at one point in time.

    `steady` is the number of further times that a new buffer is bound although the elements have not changed. `when` is
    the operation that last bound the elements. Within one operation, the elements do not change.
    """

    __slots__ = ("_elements", "capacity", "moved", "steady", "when")

    def __init__(self, device: Device, elements: bytes, steady: int, when: object) -> None:
        self._elements, self.steady, self.when = elements, steady, when
        # number of bytes that kernels take: a power of two, so that kernels do not depend on lengths
        self.capacity = max(16, 1 << (len(elements) - 1).bit_length())
        memory = ctypes.create_string_buffer(elements, self.capacity)
        super().__init__(device, ctypes.addressof(memory), len(elements), memory)
        self.moved: Buffer | None = None  # the elements in device memory, if they have been needed there

    def follow(self, elements: bytes, when: object) -> ValueBuffer:
        """Return a buffer with the current bytes of a small array, `elements`. It is a new buffer if the array changed recently, otherwise `self`."""
        same = self._elements == elements
        if same and (self.when == when or not self.steady):
            return self
        return ValueBuffer(self.device, elements, self.steady - 1 if same else STEADY, when)


def take_value(storage: Storage, epoch: Epoch) -> ValueBuffer | None:
    """Return a buffer with the elements of a small array that belongs to a GPU device, but is still in host memory. Return None for other arrays."""
    host, last = storage.host, storage.value
    if host is None or not 0 < host.nbytes <= MOST_BYTES or storage.device.name == "cpu":
        return None
    elements, when = host.tobytes(), (epoch.number, len(epoch.pending))
    found = ValueBuffer(storage.device, elements, 0, when) if last is None else last.follow(elements, when)
    storage.value = found
    return found


def in_memory(buffer: Any) -> Any:
    """Return a buffer in device memory with the elements of `buffer`, after copying if necessary."""
    if not buffer.capacity:
        return buffer
    if buffer.moved is None:
        buffer.moved = buffer.device.upload(np.ctypeslib.as_array(buffer._owner).view(np.uint8)[: buffer.nbytes])
        STATISTICS.uploaded += 1
    return buffer.moved
