"""A native implementation of a class's buffer protocol.

In: a class whose instances have a NumPy array in a slot. Out: the class's slot function, which passes a request for a
buffer on to that array. Invariant: requests to other instances are answered as before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from weft.runtime.cpu.loader import link_symbols
from weft.runtime.cpu.native import TYPE, lasting, native_object, python_function, words_with_code

_NAME, _TABLE_NAME = "weft_get_buffer", "weft_buffers"
_AS_BUFFER = 160  # offset of `tp_as_buffer` in a type object of CPython's 64-bit ABI
_FUNCTIONS = ("PyObject_GetBuffer", "Py_IncRef")
# Words of the table: the class; the value of the slot `home` for which requests are passed on; True; the address of a
# counter of requests; Python's functions; the slot function that this one replaces.
_WORDS = ("kind", "home", "true", "counter", *_FUNCTIONS, "before")
_TABLE = (ctypes.c_int64 * len(_WORDS))()
words_with_code.append(np.frombuffer(memoryview(_TABLE), np.int64))


def put_buffer(kind: type, slots: Mapping[str, int], home: object, counter: int) -> None:
    """Make instances of a class export the buffer of the NumPy array in their slot `_values`.

    Parameters
    ----------
    kind : type
        The class. Instances of subclasses are left as they are.
    slots : mapping of str to int
        The offsets of the slots `_values`, `_home` and `_lent`. The last is set to True.
    home : object
        Instances whose slot `_home` is not this object are left as they are.
    counter : int
        Address of a 64-bit integer that counts the requests.

    Raises
    ------
    CompileError
        If the native function cannot be compiled.
    """
    if _TABLE[-1]:  # (installed before)
        return
    code = native_object(_NAME, _text(slots), (_TABLE_NAME,))
    memory, (address,) = link_symbols(code.code, {_TABLE_NAME: ctypes.addressof(_TABLE)}, (_NAME,))
    lasting((memory, kind, home))
    place = ctypes.c_void_p.from_address(ctypes.c_int64.from_address(id(kind) + _AS_BUFFER).value)
    functions = map(python_function, _FUNCTIONS)
    _TABLE[:] = [id(kind), id(home), id(True), counter, *functions, place.value or 0]  # type: ignore[assignment]
    place.value = address


def _text(slots: Mapping[str, int]) -> str:
    words = "\n  ".join(
        f"%{name} = load ptr, ptr getelementptr inbounds (ptr, ptr @{_TABLE_NAME}, i64 {k})"
        for k, name in enumerate(_WORDS)
    )
    places = "\n  ".join(
        f"%{name}.at = getelementptr i8, ptr %array, i64 {offset}\n  %{name} = load ptr, ptr %{name}.at"
        for name, offset in {"type": TYPE, "own": slots["_home"], "lent": slots["_lent"]}.items()
    )
    return f"""@{_TABLE_NAME} = external global [{len(_WORDS)} x ptr]
define i32 @{_NAME}(ptr %array, ptr %view, i32 %flags) nounwind {{
  {words}
  {places}
  %values.at = getelementptr i8, ptr %array, i64 {slots["_values"]}
  %values = load ptr, ptr %values.at
  %same = icmp eq ptr %type, %kind
  %here = icmp eq ptr %own, %home
  %some = icmp ne ptr %values, null
  %both = and i1 %same, %here
  %all = and i1 %both, %some
  br i1 %all, label %forward, label %other
forward:
  %count = load i64, ptr %counter
  %more = add i64 %count, 1
  store i64 %more, ptr %counter
  %first = icmp eq ptr %lent, null
  br i1 %first, label %mark, label %ask
mark:
  call void %Py_IncRef(ptr %true)
  store ptr %true, ptr %lent.at
  br label %ask
ask:
  %done = tail call i32 %PyObject_GetBuffer(ptr %values, ptr %view, i32 %flags)
  ret i32 %done
other:
  %found = tail call i32 %before(ptr %array, ptr %view, i32 %flags)
  ret i32 %found
}}"""
