"""Compilation and loading of native functions that are written in LLVM text.

In: text that defines functions. Out: their addresses, or a builtin function with a table of the objects and functions
that it uses. Invariant: if the disk cache is enabled, the code is stored there. A process that finds the code there
does not load llvmlite.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np

from weft.runtime.background import submit
from weft.runtime.cache import disk_cache, key_material
from weft.runtime.cpu.llvm_library import load_llvm
from weft.runtime.cpu.loader import link_symbols, load_object
from weft.runtime.device import Registered
from weft.runtime.errors import CompileError
from weft.runtime.object_code import ObjectCode
from weft.runtime.settings import usable_cores
from weft.runtime.uninterruptible import uninterruptible

_T = TypeVar("_T")

# Functions of Python's C API that a builtin finds in its table. The attribute name "address" and the builtin's own
# words follow.
PYTHON = (
    "PyLong_AsLongLong",
    "PyErr_Occurred",
    "PyObject_GetAttr",
    "Py_DecRef",
    "PyList_GetItem",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyLong_FromLongLong",
)
FASTCALL = 0x82  # calling convention: an array of arguments, and the names of the keyword arguments in a tuple
TYPE = 8  # offset of an object's type
TUPLE_LENGTH, TUPLE_ITEMS = 16, tuple.__basicsize__  # offsets in a tuple (Python 3.14 has its hash in between)
KIND = ("kind", "offset")  # words of a builtin that reads the addresses of buffers


# Size in bytes of an object's header as native code expects it: reference count and type. A free-threaded Python, or
# one that traces references, has a larger header.
HEADER = 16
_header = object.__basicsize__
_TUPLE = ("an", "example", "tuple")


def check_objects() -> None:
    """Raise CompileError if native code does not support the layout of objects in this Python."""
    length = ctypes.c_int64.from_address(id(_TUPLE) + TUPLE_LENGTH).value
    if sys.implementation.name != "cpython" or _header != HEADER or length != len(_TUPLE):
        raise CompileError("native code does not know this Python's objects")


class NativeFunction(NamedTuple):
    """A loaded native function, as an address and an object that keeps the code alive.

    The code is never freed: ufuncs and tables of builtins contain only its address. (If two threads load the same
    function at the same time, the cache of `obtain_native` keeps one of the results, but both addresses are used.)
    """

    address: int
    memory: Any


@cache
def obtain_native(entry: str, text: str) -> NativeFunction:
    """Return the native function `entry` of an LLVM text. Raises CompileError if the text does not compile."""
    return _load(native_object(entry, text))


def _load(code: ObjectCode) -> NativeFunction:
    loaded = load_object(code)
    return immortal(NativeFunction(ctypes.cast(loaded.call, ctypes.c_void_p).value or 0, loaded))  # type: ignore[arg-type]


def native_object(entry: str, text: str, symbols: tuple[str, ...] = ()) -> ObjectCode:
    """Return object code of an LLVM text that defines the function `entry`.

    Code that is not in the disk cache is compiled without optimization, which takes a twentieth of the time. A second
    process then compiles it with optimization, if there is a disk cache and a second core. Later processes use the
    optimized code, and so does this process if the code has no external symbols. Raises CompileError if the text cannot
    be compiled.
    """
    cache = disk_cache()
    better, quick = _keys_of(text)
    code = cache.get(better) if cache is not None else None
    if code is not None:
        return code
    code = cache.get(quick) if cache is not None else None
    if code is None:
        code = ObjectCode("object", entry, uninterruptible(lambda: _compile(text, False), text), "host", (), symbols)
        if cache is not None:
            cache.put(quick, code)
    if cache is not None and usable_cores() > 1:
        _improve_later(code, text)
    return code


def optimized_object(entry: str, text: str, symbols: tuple[str, ...], compiling: bool) -> ObjectCode | None:
    """Return machine code that was compiled from an LLVM text and optimized for this processor, or None if there is none yet.

    With `compiling`, missing code is compiled: later by a second process, or immediately if there is no disk cache, no
    second process or only one core. Raises CompileError if the text cannot be compiled.
    """
    cache = disk_cache()
    processor = _processor()
    key = _keys_of(text, processor)[0]
    code = cache.get(key) if cache is not None else None
    if code is not None or not compiling:
        return code
    empty = ObjectCode("object", entry, b"", "host", (), symbols)
    if cache is not None and usable_cores() > 1 and _improve_later(empty, text, processor):
        return None
    code = replace(empty, code=uninterruptible(lambda: _compile(text, True, processor), text))
    if cache is not None:
        cache.put(key, code)
    return code


def link_native(text: str, outside: Mapping[str, int], names: Sequence[str]) -> list[int]:
    """Compile an LLVM text, and return the addresses of the functions `names`.

    `outside` are the addresses of external symbols. Raises CompileError if the text cannot be compiled.
    """
    code = native_object(names[0], text, tuple(outside))
    memory, addresses = link_symbols(code.code, outside, names)
    immortal(memory)
    return addresses


def is_kept(text: str) -> bool:
    """Return whether the disk cache has code that was compiled from an LLVM text. The code may be optimized or not."""
    cache = disk_cache()
    return cache is not None and any(map(cache.has, _keys_of(text)))


# A processor's name and features, as LLVM writes them.
Processor = tuple[str, str]


def _processor() -> Processor:
    target = Registered.resolve_target("host")
    return target.arch, target.features


def _keys_of(text: str, processor: Processor | None = None) -> tuple[bytes, bytes]:
    kind = " ".join(["native", platform.machine(), platform.system(), *(processor or ())])
    return key_material(kind, text), key_material(f"quick {kind}", text)


# Hashes of the texts and processors for which the second process was asked to compile.
_requested: set[int] = set()


def _improve_later(code: ObjectCode, text: str, processor: Processor | None = None) -> bool:
    """Request optimized code from a background process. Return whether this request, or an earlier one for the same text, was accepted."""
    if hash((text, processor)) in _requested:
        return True
    used = bool(code.code and not code.symbols)
    then = partial(_exchange_code, code.entry, text) if used else None
    name = f"{__name__}.compile_optimized"
    if submit(name, (code.entry, text, code.symbols, processor), then) is None:
        return False
    _requested.add(hash((text, processor)))
    return True


def compile_optimized(entry: str, text: str, symbols: tuple[str, ...], processor: Processor | None) -> None:
    """Compile an LLVM text with optimization, and store the code in the disk cache.

    This function runs in the second process.
    """
    cache, key = disk_cache(), _keys_of(text, processor)[0]
    if cache is not None and cache.get(key) is None:
        cache.put(key, ObjectCode("object", entry, _compile(text, True, processor), "host", (), symbols))


# Addresses and lengths of arrays of words from which addresses of native functions are read at each call.
words_with_code: list[tuple[int, int]] = []


def _exchange_code(entry: str, text: str) -> None:
    """Replace the address of a native function by that of its optimized code.

    The address is replaced in all arrays in `words_with_code`. If the disk cache has no optimized code, nothing is
    replaced.
    """
    cache = disk_cache()
    better = cache.get(_keys_of(text)[0]) if cache is not None else None
    if better is None:
        return
    old, new = obtain_native(entry, text).address, _load(better)
    for address, length in words_with_code:
        _exchange(address, length, old, new.address)


def _exchange(address: int, length: int, old: int, new: int) -> None:
    """Replace every occurrence of the value `old` in an array of words by `new`."""
    words: Any = (ctypes.c_int64 * length).from_address(address)
    values = np.frombuffer(words, np.int64)
    values[values == old] = new


def _compile(text: str, optimized: bool, processor: Processor | None = None) -> bytes:
    """Compile LLVM text to an object file for `processor`. If `processor` is None, the file runs on any processor of this architecture."""
    load_llvm()
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the runtime's own code is not valid: {error}") from None
    level = 2 if optimized else 0
    cpu, features = processor or ("", "")
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small"
    )
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    if optimized:
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=level))
        builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


class _MethodDefinition(ctypes.Structure):
    """The PyMethodDef structure of Python's C API."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Builtin:
    """A native function that Python can call.

    Parameters
    ----------
    entry, text : str
        The name of the function, and its LLVM text, which `Text.begin_builtin` has begun.
    words : sequence of int
        The values of the words that `Text.begin_builtin` has named, in the same order.
    objects : sequence
        Objects that live as long as the function.
    name, doc : str, optional
        The function's name and docstring in Python. `doc` may begin with the signature and a line ``--``.
    owner : str, optional
        The public module that contains the function as the attribute `name`.

    Attributes
    ----------
    call : builtin function
        The function. It lives as long as the process, and so does the `Builtin`.
    address : int
        The address of the native function.
    table : bytes
        The object to which the function is bound. It contains the words that the function reads.
    named : tuple of str
        `name`, `doc` and `owner`.

    Raises
    ------
    CompileError
        If the function cannot be compiled.
    """

    def __init__(
        self,
        entry: str,
        text: str,
        words: Sequence[int],
        objects: Sequence[object] = (),
        name: str = "run",
        doc: str = "",
        owner: str = "weft",
    ) -> None:
        check_objects()
        self._objects, self.named = objects, (name, doc, owner)
        self._function = obtain_native(entry, text)
        python = [python_function(name) for name in PYTHON]
        self._name = sys.intern("address")
        # The function reads its table from the bytes object to which it is bound.
        table = self.table = _table_type(owner)(array("q", [*python, id(self._name), *words]).tobytes())
        self.address = self._function.address
        self._method = _MethodDefinition(name.encode(), self._function.address, FASTCALL, doc.encode())
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        self.call: Callable[..., Any] = make(ctypes.addressof(self._method), table, None)
        method = ctypes.addressof(self._method), ctypes.sizeof(_MethodDefinition) // 8
        words_with_code.extend((self._words(), method))
        immortal(self)  # holders of the function may call it, even if another thread has created a second builtin

    def exchange(self, old: object, new: object) -> None:
        """Replace an object to which the native function refers."""
        self._objects = (*self._objects, new)  # (the old object may be in use)
        _exchange(*self._words(), id(old), id(new))

    def _words(self) -> tuple[int, int]:
        """Return the address and the length in words of the table that the native function reads."""
        return id(self.table) + bytes.__basicsize__ - 1, len(self.table) // 8

    def method(self) -> Any:
        """Return the native function as a method that receives the instance as its first argument."""
        make = ctypes.pythonapi.PyInstanceMethod_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.py_object,)
        return make(self.call)


@cache
def _table_type(owner: str) -> type[bytes]:
    """Return the class of the tables for a module's native functions. A function reads addresses and other 64-bit words from its table.

    Python shows the class of a builtin's table before the builtin's name. A builtin is pickled as an attribute of its
    table, and the table is pickled as the module.
    """
    pickled = {"__reduce__": lambda _: (import_module, (owner,))}
    return type(owner, (bytes,), {"__slots__": (), "__module__": "builtins", **pickled})


@cache
def python_function(name: str) -> int:
    """Return the address of a function of Python's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def immortal(thing: _T) -> _T:
    """Keep an object alive forever, and return it. Native code may refer to the object without a counted reference."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


# -- text -----------------------------------------------------------------------------------------------


class Text:
    """Builder for the LLVM text of a function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def begin_builtin(self, entry: str, words: Sequence[str]) -> dict[str, str]:
        """Begin the LLVM function of a `Builtin` (a native function for Python). Return a dict from the names of its constants to LLVM values.

        The function loads the constants, which are 64-bit words, from its table. ``%given`` holds ``%count`` arguments,
        followed by the keyword arguments, whose names are in the tuple ``%names`` (or null). LLVM does not replace the
        function's loops with calls to external functions.
        """
        self.lines.append(
            f'define ptr @{entry}(ptr %self, ptr %given, i64 %count, ptr %names) nounwind "no-builtins" {{'
        )
        self.label("entry")
        inside = self.new(f"getelementptr i8, ptr %self, i64 {bytes.__basicsize__ - 1}")
        names = (*PYTHON, "address", *words)
        return {name: self.load(inside, k, "ptr") for k, name in enumerate(names)}

    def end(self) -> str:
        """End the function, and return its text."""
        self.lines.append("}")
        return "\n".join(self.lines)

    def do(self, line: str) -> None:
        """Append a line with an instruction. If the instruction has a result, the line must begin with the result's name and ``=``."""
        self.lines.append(f"  {line}")

    def new(self, line: str) -> str:
        """Append an instruction, and return a new name, which stands for its result."""
        self._count += 1
        self.lines.append(f"  %t{self._count} = {line}")
        return f"%t{self._count}"

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{name}:")

    def at(self, base: str, word: int | str) -> str:
        """Emit code that computes the address of word `word` (64 bits) of the array at `base`."""
        return self.new(f"getelementptr i64, ptr {base}, i64 {word}")

    def load(self, base: str, word: int | str, kind: str = "i64") -> str:
        """Emit a load of word `word` (64 bits) of the array at `base`."""
        return self.new(f"load {kind}, ptr {self.at(base, word)}")

    def store(self, value: str, base: str, word: int | str) -> None:
        """Emit a store to word `word` (64 bits) of the array at `base`."""
        self.do(f"store i64 {value}, ptr {self.at(base, word)}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Append a conditional branch."""
        self.do(f"br i1 {self.new(condition)}, label %{yes}, label %{no}")

    def enter_if(self, condition: str, yes: str, no: str) -> None:
        """Append a conditional branch, and begin the block `yes`."""
        self.branch(condition, yes, no)
        self.label(yes)

    def leave_if(self, condition: str, yes: str, no: str) -> None:
        """End the current block with a conditional branch to the blocks `yes` and `no`, and begin the block `no`."""
        self.branch(condition, yes, no)
        self.label(no)

    def begin_block(self, name: str) -> None:
        """End the current block with a branch to the block `name`, and begin that block."""
        self.jump(name, name)

    def jump(self, target: str, name: str) -> None:
        """End the current block with a branch to the block `target`, and begin the block `name`."""
        self.do(f"br label %{target}")
        self.label(name)

    def begin_loop(self, name: str, count: str) -> str:
        """Begin a loop that counts from 0 to `count` - 1, and return the name of the loop's index."""
        self.begin_block(f"{name}.enter")
        self.begin_block(name)
        self.do(f"%{name}.k = phi i64 [ 0, %{name}.enter ], [ %{name}.next, %{name}.end ]")
        self.enter_if(f"icmp slt i64 %{name}.k, {count}", f"{name}.body", f"{name}.done")
        return f"%{name}.k"

    def end_loop(self, name: str, reached: bool = False) -> None:
        """Emit the end of a loop. With ``reached=True``, omit the branch to the label ``NAME.end``, because the body's code already ends with it."""
        if not reached:
            self.do(f"br label %{name}.end")
        self.label(f"{name}.end")
        self.do(f"%{name}.next = add i64 %{name}.k, 1")
        self.jump(name, f"{name}.done")

    def item(self, known: dict[str, str], table: str, index: str, name: str) -> str:
        """Emit a load of item `index` of a list. The code branches to ``raise`` if the index is out of range."""
        found = self.new(f"call ptr {known['PyList_GetItem']}(ptr {table}, i64 {index})")
        self.leave_if(f"icmp eq ptr {found}, null", "raise", name)
        return found

    def address(self, known: dict[str, str], table: str, index: str, name: str) -> str:
        """Emit code that loads the memory address of a buffer object. The object is the item at position `index` in the Python list `table`.

        At run time, an index out of range or an item without an address branches to ``raise``.

        The address of a reusable buffer is loaded directly: the builtin's words `KIND` are the class of reusable
        buffers and the offset of their address. For other items, the ``address`` attribute is read.
        """
        item = self.item(known, table, index, f"{name}.look")
        kind = self.new(f"load ptr, ptr {self.new(f'getelementptr i8, ptr {item}, i64 {TYPE}')}")
        self.enter_if(f"icmp eq ptr {kind}, {known[KIND[0]]}", f"{name}.known", f"{name}.ask")
        offset = self.new(f"ptrtoint ptr {known[KIND[1]]} to i64")
        there = self.new(f"load ptr, ptr {self.new(f'getelementptr i8, ptr {item}, i64 {offset}')}")
        quick = self.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {there})")
        self.jump(f"{name}.found", f"{name}.ask")
        found = self.new(f"call ptr {known['PyObject_GetAttr']}(ptr {item}, ptr {known['address']})")
        self.leave_if(f"icmp eq ptr {found}, null", "raise", f"{name}.take")
        value = self.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {found})")
        self.do(f"call void {known['Py_DecRef']}(ptr {found})")
        self.begin_block(f"{name}.found")
        return self.new(f"phi i64 [ {quick}, %{name}.known ], [ {value}, %{name}.take ]")
