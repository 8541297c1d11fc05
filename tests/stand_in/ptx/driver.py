"""A stand-in for the CUDA driver. It executes kernels by interpreting their PTX text with NumPy.

In: modules as text, and launches. Out: results, and in `memory.wrong` the errors at which a GPU would have stopped.
Invariant: machine code is rejected, as a driver rejects machine code of a newer toolkit, so that weft loads PTX text
instead. A kernel gets its parameters as bytes at the offsets that its text declares.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.stand_in.driver import put64
from tests.stand_in.ptx.instructions import make_ready
from tests.stand_in.ptx.machine import LAUNCH_FAILED, Fault, Program, run
from tests.stand_in.ptx.text import Module, parse
from tests.stand_in.ptx.traffic import Traffic
from tests.stand_in.running import Launched, Loaded, RunningStandIn
from weft.runtime import CudaDevice

KEPT = 64 << 20
INVALID_IMAGE, INVALID_PTX, NOT_FOUND = 209, 218, 500


@dataclass(frozen=True, slots=True)
class Started(Launched):
    """A launch, with the bytes of the kernel's parameters."""

    parameters: bytes = b""


@dataclass(slots=True)
class Text:
    """A loaded module: its text and the addresses of its variables."""

    image: bytes
    symbols: dict[str, int]

    def program(self, name: str) -> Program:
        """Return the module's function `name` as a `Program`, which the simulated GPU can run."""
        return _prepared(self.image, name, tuple(self.symbols.items()))


class PtxStandIn(RunningStandIn):
    """A driver for a GPU that is simulated with NumPy."""

    def __init__(self, total: int = 4 << 30) -> None:
        self.texts: dict[int, Text] = {}
        self.functions: dict[int, tuple[Text, str]] = {}
        self.seed = 0
        self.traffic: list[Traffic] | None = None  # if it is a list, each launch appends its traffic
        super().__init__(total)

    def _bodies(self) -> dict[str, Any]:
        own = {"cuModuleUnload": self._unload, "cuMemGetInfo": self._memory}
        return {**super()._bodies(), **own}

    def _memory(self, a: Any) -> int:
        """Report the free and the total memory. The driver keeps some memory for itself."""
        return put64(a[0], self.memory.total - self.memory.held - KEPT) or put64(a[1], self.memory.total)

    def _say(self, what: str) -> None:
        """Report an error to the test (`memory.wrong`) and on standard error."""
        self.memory.wrong.append(what)
        print(f"the GPU: {what}", file=sys.stderr)

    def _load(self, a: Any) -> int:
        image = ctypes.string_at(a[1])
        if image.startswith(b"\x7fELF"):
            return INVALID_IMAGE
        try:
            module = _parsed(image)
        except ValueError as error:
            self._say(str(error))
            return INVALID_PTX
        text = Text(image, {})
        for variable in module.variables.values():
            if variable.space in ("global", "const") and variable.size:
                at = self.memory.give("module", variable.size)
                ctypes.memmove(at, variable.initial.ljust(variable.size, b"\0"), variable.size)
                text.symbols[variable.name] = at
        handle = self._handle()
        self.texts[handle] = text
        return put64(a[0], handle)

    def _unload(self, a: Any) -> int:
        text = self.texts.pop(a[0], None)
        for at in text.symbols.values() if text else ():
            self.memory.take("module", at)
        return 0

    def _function(self, a: Any) -> int:
        text, name = self.texts[a[1]], ctypes.string_at(a[2]).decode()
        if name not in _parsed(text.image).functions:
            return NOT_FOUND
        try:
            program = text.program(name)
        except ValueError as error:
            self._say(str(error))
            return INVALID_PTX
        handle = self._handle()
        self.functions[handle] = text, name
        self.loaded[handle] = Loaded(name, len(program.function.parameters))
        return put64(a[0], handle)

    def _read(
        self, function: int, grid: Any, block: Any, shared: int, stream: int, arguments: int, together: bool
    ) -> Launched | None:
        launch = super()._read(function, grid, block, shared, stream, arguments, together)
        if launch is None:
            return None
        whole = bytearray()
        addresses = (ctypes.c_int64 * max(1, len(launch.arguments))).from_address(arguments) if arguments else ()
        text, name = self.functions[function]
        for address, (offset, size) in zip(addresses, text.program(name).function.parameters.values(), strict=False):
            whole = whole.ljust(offset, b"\0") + ctypes.string_at(address, size)
        values = (launch.name, launch.grid, launch.block, launch.shared_bytes, launch.stream, launch.arguments)
        return Started(*values, launch.cooperative, bytes(whole))

    def _run(self, loaded: Loaded, started: Launched) -> int:
        assert isinstance(started, Started)
        self.launched.append(started)
        text, name = next(self.functions[h] for h, other in self.loaded.items() if other is loaded)
        self.seed += 1
        traffic = Traffic() if self.traffic is not None else None
        if self.traffic is not None and traffic is not None:
            self.traffic.append(traffic)
        try:
            run(text.program(name), self.memory, started, started.parameters, self.seed, traffic)
        except Fault as fault:
            self._say(f"{loaded.name}: {fault}")
            return fault.code
        except Exception as error:  # the driver returns a code; record the error for the test
            self._say(f"{loaded.name}: {error!r}")
            return LAUNCH_FAILED
        return 0


_numbers = itertools.count(200)


def make_ptx_device(stand_in: PtxStandIn) -> CudaDevice:
    """Return a CUDA device on the stand-in. The device has a unique name, since plans are stored by device name."""
    return CudaDevice(next(_numbers), stand_in.table)


# (Few modules and functions are kept: each takes up to several megabytes, and caches of kernels keep devices alive.)
@lru_cache(16)
def _parsed(image: bytes) -> Module:
    return parse(image.decode())


@lru_cache(32)
def _prepared(image: bytes, name: str, symbols: tuple[tuple[str, int], ...]) -> Program:
    return make_ready(_parsed(image), name, dict(symbols), {})
