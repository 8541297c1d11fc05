"""The registry of devices, and the selection of the default device."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from weft.runtime.device import Device, Registered
from weft.runtime.errors import CompileError, DeviceNotFoundError
from weft.runtime.settings import setting

_devices: dict[str, Device] = {}
# Forms of the names of devices that need no GPU, and how their threads may run.
_FORMS = {
    "simt": ("simt", "simt:sm_90", "simt::backward", "simt::sanitized", "simt:sm_90:backward", "simt:sm_90:sanitized"),
    "null": ("null", "null:sm_90"),
}
_WAYS = {"simt": ("backward", "sanitized"), "null": ()}
_lock = threading.RLock()  # (reentrant, since a finalizer may evaluate arrays meanwhile)
# (a thread that the child does not have may hold the parent's lock)
os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.RLock()))
_chosen: Device | None = None
# Whether arrays may be on other devices than the default one: this process uses several, or has not chosen the default.
SEVERAL_DEVICES = [True]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.devices: list[Device] = []
        self.selected: Device | None = None


_stack = _Stack()


def get_device(name: str | Device) -> Device:
    """Return the device with a name such as "cpu", "cuda:1", "simt" or "null:sm_90".

    "cuda" is the device "cuda:0". Raises DeviceNotFoundError if the name has no valid form, or if this machine does not
    have the device. Raises TypeError if `name` is neither a string nor a device.
    """
    if not isinstance(name, str):
        if not isinstance(name, Device):
            raise TypeError(f"a device or its name is expected, not {name!r}")
        return name
    name = "cuda:0" if name == "cuda" else name
    found = _devices.get(name)
    if found is None:
        with _lock:
            found = _devices.get(name)
            if found is None:
                found = _devices[name] = _make(name)
                SEVERAL_DEVICES[0] = len(_devices) > 1 or _chosen is None
    return found


def _made(what: str, *given: Any) -> Any:
    """Import a class or function by its dotted path below ``weft.runtime``, and call it."""
    module, _, name = what.rpartition(".")
    return getattr(import_module(f"weft.runtime.{module}"), name)(*given)


def _make(name: str) -> Device:
    if name == "cpu":
        return _made("cpu.host_device.CpuDevice")
    kind, *parts = name.split(":")
    if kind in _FORMS:
        _check_name(name)
        return _made("null.NullDevice" if kind == "null" else "cpu.simt.SimtDevice", name)
    number = parts[0] if kind == "cuda" and len(parts) == 1 else ""
    if number.isdecimal() and number == str(int(number)):
        result = _made("cuda.probe.probe")
        if result.status == "ok" and int(number) < len(result.devices):
            return _made("cuda.cuda_device.CudaDevice", int(number))
        reason = result.message if result.status != "ok" else f"this machine has {len(result.devices)} GPU(s)"
        raise DeviceNotFoundError(f"no device {name!r}: {reason}{'; ' + result.remedy if result.remedy else ''}")
    raise DeviceNotFoundError(f"no device {name!r}; devices are called cpu, cuda:0, cuda:1, ..., simt, null")


def _check_name(name: str) -> None:
    """Raise DeviceNotFoundError if the name of a `simt` device or of a null device is not valid."""
    kind, architecture, way, *_ = *name.split(":"), "", ""
    valid = name == f"{kind}:{architecture}:{way}".rstrip(":") and way in ("", *_WAYS[kind])
    problem = ""
    if valid and architecture.startswith("sm_"):
        try:
            Registered.resolve_target(architecture)
        except CompileError as error:
            problem = f": {error}"
    elif architecture:
        valid = False
    if problem or not valid:
        raise DeviceNotFoundError(f"no device {name!r}{problem}; valid forms are {', '.join(_FORMS[kind])}")


def devices() -> list[Device]:
    """Return this machine's devices that can run kernels.

    Returns
    -------
    list of Device
        The CPU, followed by all GPUs found.

    Examples
    --------
    >>> 'cpu' in [device.name for device in wf.devices()]
    True
    """
    result = _made("cuda.probe.probe")
    count = len(result.devices) if result.status == "ok" else 0
    return [get_device("cpu"), *(get_device(f"cuda:{k}") for k in range(count))]


def default_device() -> Device:
    """Return the device on which new arrays are created.

    Returns
    -------
    Device
        The first of these devices that is set or exists: the device of the innermost ``with weft.device(...)``, the
        device that the thread has selected, the device of `set_default_device`, the device of WEFT_DEVICE, the first
        GPU, the CPU.

    Examples
    --------
    >>> wf.default_device() in wf.devices()
    True
    """
    global _chosen
    if _stack.devices:
        return _stack.devices[-1]
    if _stack.selected is not None:
        return _stack.selected
    if _chosen is None:
        if name := setting("device"):
            try:
                _chosen = get_device(name)
            except DeviceNotFoundError as error:
                raise DeviceNotFoundError(f"WEFT_DEVICE={name!r}: {error}") from None
        else:
            found = _made("cuda.probe.probe")
            _chosen = get_device(f"cuda:{found.first}" if found.status == "ok" else "cpu")
        SEVERAL_DEVICES[0] = len(_devices) > 1
    return _chosen


def set_default_device(name: str | Device | None) -> None:
    """Set the default device of this process.

    Parameters
    ----------
    name : str, Device or None
        The name of a device, such as ``"cpu"``, ``"cuda:0"`` or ``"simt"``. None restores the automatic choice.

    Raises
    ------
    DeviceNotFoundError
        If the device does not exist. The message names the missing part and a remedy.

    Examples
    --------
    >>> wf.set_default_device('cpu')
    >>> wf.ones(2).device.name
    'cpu'
    >>> wf.set_default_device(None)
    """
    global _chosen
    _chosen = None if name is None else get_device(name)
    SEVERAL_DEVICES[0] = len(_devices) > 1 or _chosen is None


def select_device(name: str | Device | None) -> None:
    """Set the default device of the calling thread. If `name` is None, the process's default device is used again."""
    _stack.selected = None if name is None else get_device(name)


@contextmanager
def device(name: str | Device) -> Iterator[Device]:
    """Within the ``with`` block, the calling thread creates its new arrays on the given device."""
    chosen = get_device(name)
    _stack.devices.append(chosen)
    try:
        yield chosen
    finally:
        _stack.devices.pop()
