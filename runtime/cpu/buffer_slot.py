"""Native implementation of the buffer protocol for a class.

In: a class whose instances have a NumPy array in a slot. Out: the function in the class's type slot, which passes
buffer requests on to that array. Invariant: requests to other instances are answered as before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from weft.runtime.cpu.native import TYPE, immortal, link_native, python_function, words_with_code
from weft.runtime.llvm_files import read_llvm

_NAME, _TABLE_NAME = "weft_get_buffer", "weft_buffers"
_AS_BUFFER = 160  # offset of `tp_as_buffer` in a type object of CPython's 64-bit ABI
_FUNCTIONS = ("PyObject_GetBuffer", "Py_IncRef")
# Words of the table: the class; the value of the slot `_device` for which requests are passed on; True; the address of a
# counter of requests; Python's functions; the slot's previous function.
_WORDS = ("KIND", "DEVICE", "TRUE", "COUNTER", "GET", "HOLD", "BEFORE")
_TABLE = (ctypes.c_int64 * len(_WORDS))()
words_with_code.append((ctypes.addressof(_TABLE), len(_TABLE)))


def put_buffer(kind: type, slots: Mapping[str, int], device: object, counter: int) -> None:
    """Let instances of a class export the NumPy array in their slot `_values` as a buffer.

    A second call has no effect.

    Parameters
    ----------
    kind : type
        The class. Instances of subclasses keep their behavior.
    slots : mapping of str to int
        The offsets of the slots `_values`, `_device` and `_exported`. A request sets `_exported` to True.
    device : object
        Instances whose slot `_device` is not this object keep their behavior.
    counter : int
        Address of a 64-bit integer that counts the requests.

    Raises
    ------
    CompileError
        If the native function cannot be compiled.
    """
    if _TABLE[-1]:  # (already installed)
        return
    (address,) = link_native(_text(slots), {_TABLE_NAME: ctypes.addressof(_TABLE)}, (_NAME,))
    immortal((kind, device))
    slot = ctypes.c_void_p.from_address(ctypes.c_int64.from_address(id(kind) + _AS_BUFFER).value)
    functions = map(python_function, _FUNCTIONS)
    _TABLE[:] = [id(kind), id(device), id(True), counter, *functions, slot.value or 0]  # type: ignore[assignment]
    slot.value = address


def _text(slots: Mapping[str, int]) -> str:
    return read_llvm(
        __file__,
        "buffer_slot",
        NAME=_NAME,
        TABLE=_TABLE_NAME,
        WORDS=len(_WORDS),
        TYPE=TYPE,
        OWN=slots["_device"],
        EXPORTED=slots["_exported"],
        VALUES=slots["_values"],
        **{name: k for k, name in enumerate(_WORDS)},
    )
