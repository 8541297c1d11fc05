"""The null device, which compiles kernels but does not run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.runtime.device import Buffer, Registered
from weft.runtime.object_code import ObjectCode
from weft.runtime.synchronous_device import NoMemory, SynchronousDevice

if TYPE_CHECKING:
    from weft.runtime.services import Stream


class NullDevice(SynchronousDevice):
    """A device that compiles kernels and counts launches, but does not run them.

    Buffers have no memory, and reading them gives zeros.

    Parameters
    ----------
    name : str
        "null" generates host code, and "null:sm_90" generates code for that GPU architecture.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.small_on_host = False  # (so that everything is compiled)
        self.memory = NoMemory()
        self._target: Any = None
        self.launched = 0

    @property
    def target(self) -> Any:
        if self._target is None:
            self._target = Registered.resolve_target(self.name.partition(":")[2] or "host")
        return self._target

    def allocate(self, nbytes: int) -> Buffer:
        """Return a buffer without memory."""
        return Buffer(self, 0, nbytes)

    lookback_descriptors = allocate

    def completion_counter(self) -> Buffer:
        return self.allocate(4)

    def upload(self, values: np.ndarray) -> Buffer:
        return self.allocate(values.nbytes)

    def download(self, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, dtype)

    def copy(self, source: Buffer, destination: Buffer, nbytes: int) -> None:
        """Do nothing, since buffers have no memory."""

    def fetch(self, buffer: Buffer) -> Buffer:
        return self.allocate(buffer.nbytes)

    def read(self, address: int, values: np.ndarray, stream: Stream | None = None) -> None:
        values.fill(0)

    def write(self, address: int, values: np.ndarray, stream: Stream | None = None) -> None:
        """Do nothing, since the device has no memory."""

    def load(self, code: ObjectCode) -> Any:
        """Return the object code unchanged."""
        return code

    def launch(self, *arguments: Any, **options: Any) -> None:
        """Count a launch, without running the kernel."""
        self.launched += 1

    launch_grid = launch
