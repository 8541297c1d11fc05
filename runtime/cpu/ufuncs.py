"""NumPy ufuncs whose inner loops call compiled kernels.

In: loaded kernels. Out: `np.ufunc` objects. Invariant: on x86-64 and AArch64, an inner loop preserves the
floating-point status flags, so that NumPy does not warn.
"""

from __future__ import annotations

import ctypes
import platform
from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.runtime.cpu.loader import HostFunction
from weft.runtime.cpu.native import HEADER, Text, check_objects, immortal, obtain_native
from weft.runtime.errors import CompileError

# Words of an elementwise loop's data: its entry, the number of operands, then the binary logarithms of their item
# sizes.
PACKED, COUNT, SHIFTS = range(3)
# Words of a reduction's data: its entry; its number of slots; the indices of the slots for source, result and length;
# then the slots.
ENTRY, SLOTS, INDICES = range(3)
# Maximum number of operands of an elementwise loop, and of slots of a reduction.
MOST = 8
MOST_SLOTS = 16
# Number of elements of an operand that are packed at a time (a power of two), and their maximum size in bytes.
BLOCK = 256
BLOCK_BYTES = 16 * BLOCK
# Positions in the table of NumPy's C interface for ufuncs.
_MAKE, _MAKE_WITH_SIGNATURE = 1, 31
_NONE = -1  # PyUFunc_None: no identity
_LOOPS = HEADER + 16, HEADER + 24  # offsets of a ufunc's inner loops and of their data

# How the flags are saved in the word ``%flags`` and restored; on other machines, raised flags remain raised.
_FLAGS = {
    "x86_64": (
        "call void @llvm.x86.sse.stmxcsr(ptr %flags)",
        "call void @llvm.x86.sse.ldmxcsr(ptr %flags)",
        "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)",
    ),
    "aarch64": (
        "%raised = call i64 @llvm.aarch64.get.fpsr()\nstore i64 %raised, ptr %flags",
        "%before = load i64, ptr %flags\ncall void @llvm.aarch64.set.fpsr(i64 %before)",
        "declare i64 @llvm.aarch64.get.fpsr()\ndeclare void @llvm.aarch64.set.fpsr(i64)",
    ),
}


def make_map_ufunc(name: str, entry: HostFunction, dtypes: Sequence[np.dtype]) -> Any:
    """Return an elementwise ufunc with one inner loop, which calls a compiled kernel.

    `entry` processes contiguous operands. Its slots are the operands' addresses and the number of elements. The last
    dtype is that of the result. Raises CompileError if the loop cannot be compiled.
    """
    shifts = [dtype.itemsize.bit_length() - 1 for dtype in dtypes]
    data = array("q", [entry.address, len(dtypes), *shifts])
    return _make(name, _loop("weft_map_loop"), data, dtypes, (entry,))


def make_reduction_ufunc(
    name: str, entry: HostFunction, slots: Sequence[int], slot_indices: Sequence[int], dtypes: Sequence[np.dtype]
) -> Any:
    """Return a generalized ufunc that reduces contiguous rows with a compiled kernel.

    The ufunc's signature is ``(n)->()`` or ``(n),(n)->()``. `slots` are the arguments of `entry`. The loop sets the
    arguments with the indices `slot_indices`: the addresses of the rows, the address of the result, and the length.
    """
    inputs = len(dtypes) - 1
    data = array("q", [entry.address, len(slots), *slot_indices, *slots])
    signature = ",".join(["(n)"] * inputs) + "->()"
    return _make(name, _loop(f"weft_fold_loop_{inputs}", inputs), data, dtypes, (entry,), signature)


def _make(
    name: str, loop: int, data: array[int], dtypes: Sequence[np.dtype], kept: tuple[Any, ...], signature: str = ""
) -> Any:
    function = _interface(_MAKE_WITH_SIGNATURE if signature else _MAKE)
    functions = (ctypes.c_void_p * 1)(loop)
    pointers = (ctypes.c_void_p * 1)(data.buffer_info()[0])
    types = ctypes.create_string_buffer(bytes(dtype.num for dtype in dtypes))
    text = name.encode()
    given: list[Any] = [functions, pointers, types, 1, len(dtypes) - 1, 1, _NONE, text, text, 0]
    made = function(*given, signature.encode()) if signature else function(*given)
    immortal((functions, pointers, types, text, data, kept, made))  # (the ufunc keeps no references to them)
    return made


def find_inner_loop(ufunc: np.ufunc, dtype: np.dtype) -> tuple[int, int, np.dtype] | None:
    """Return the inner loop of a ufunc for operands of a dtype, or None.

    The result is the address of the loop, the address of its data, and the dtype of its result. Return None if the
    ufunc has no such loop, or several results.
    """
    index, result = _loop_numbers(ufunc).get(dtype.char * ufunc.nin, (-1, ""))
    if index < 0 or ufunc.nout != 1:
        return None
    functions, data = (ctypes.c_int64.from_address(id(ufunc) + at).value for at in _LOOPS)
    loop = ctypes.c_int64.from_address(functions + 8 * index).value
    return loop, data and ctypes.c_int64.from_address(data + 8 * index).value, np.dtype(result)


@cache
def _loop_numbers(ufunc: np.ufunc) -> dict[str, tuple[int, str]]:
    """Return a ufunc's inner loops as a dict. Keys are operand dtypes, such as "dd". Values are tuples of a loop index and the result dtypes."""
    found: dict[str, tuple[int, str]] = {}
    for number, types in enumerate(ufunc.types):
        operands, _, results = types.partition("->")
        found.setdefault(operands, (number, results))
    return found


def numpy_function(name: str, index: int) -> int:
    """Return the address of function number `index` in the table `name` of NumPy's C API."""
    check_objects()
    capsule = getattr(np._core._multiarray_umath, name, None)  # type: ignore[attr-defined]
    if capsule is None:
        raise CompileError("this NumPy shows no C interface")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))[index] or 0


@cache
def _interface(index: int) -> Any:
    c = ctypes.c_int
    arguments = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, c, c, c, c, ctypes.c_char_p, ctypes.c_char_p, c]
    if index == _MAKE_WITH_SIGNATURE:
        arguments.append(ctypes.c_char_p)
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arguments)(numpy_function("_UFUNC_API", index))


@cache
def _loop(entry: str, inputs: int = 0) -> int:
    return obtain_native(entry, _reduction_text(entry, inputs) if inputs else _map_text(entry)).address


def _begin(t: Text, entry: str, slots: int) -> None:
    t.lines.append(f"define void @{entry}(ptr %args, ptr %dims, ptr %steps, ptr %data) nounwind {{")
    t.label("entry")
    t.do("%flags = alloca i64, align 16")
    t.do(f"%slots = alloca [{slots} x i64], align 16")
    t.do(_flags()[0])


def _end(t: Text) -> str:
    _, restore, declared = _flags()
    t.do(restore)
    t.do("ret void")
    return f"{declared}\n{t.end()}"


def _flags() -> tuple[str, str, str]:
    return _FLAGS.get(platform.machine(), ("", "", ""))


def _map_text(entry: str) -> str:
    """Return the LLVM text of the inner loop of an elementwise ufunc.

    Contiguous operands are processed in one call, and others block by block. If an element depends on the previous one,
    there is one call per element.
    """
    t = Text()
    _begin(t, entry, MOST + 1)
    count, length = t.load("%data", COUNT), t.load("%dims", 0)
    shifts, last = t.at("%data", SHIFTS), t.new(f"sub i64 {count}, 1")
    t.do("%loose = alloca i64")
    t.do(f"%blocks = alloca [{MOST * BLOCK_BYTES} x i8], align 64")
    t.do("store i64 0, ptr %loose")
    t.store(length, "%slots", count)
    k = t.begin_loop("read", count)
    t.store(t.load("%args", k), "%slots", k)
    apart = t.new(f"xor i64 {t.load('%steps', k)}, {t.new(f'shl i64 1, {t.load(shifts, k)}')}")
    before = t.new("load i64, ptr %loose")
    t.do(f"store i64 {t.new(f'or i64 {before}, {apart}')}, ptr %loose")
    t.end_loop("read")
    # a reduction writes to the memory that it reads, and the next element reads the accumulated value
    step, out = t.load("%steps", last), t.load("%args", last)
    behind = t.new(f"add i64 {t.load('%args', 0)}, {step}")
    t.leave_if(f"icmp eq i64 {behind}, {out}", "single", "apart")
    t.enter_if(f"icmp eq i64 {t.new('load i64, ptr %loose')}, 0", "packed", "unpacked")
    t.do(f"call void {t.load('%data', PACKED, 'ptr')}(ptr %slots, i64 0, i64 {length})")
    t.jump("leave", "unpacked")
    _in_blocks(t, count, length, last, shifts)
    t.jump("leave", "single")
    t.store("1", "%slots", count)
    t.begin_loop("one", length)
    t.do(f"call void {t.load('%data', PACKED, 'ptr')}(ptr %slots, i64 0, i64 1)")
    k = t.begin_loop("move", count)
    t.store(t.new(f"add i64 {t.load('%slots', k)}, {t.load('%steps', k)}"), "%slots", k)
    t.end_loop("move")
    t.end_loop("one")
    t.begin_block("leave")
    return _end(t)


def _in_blocks(t: Text, count: str, length: str, last: str, shifts: str) -> None:
    """Emit a loop that calls the kernel once for each block of elements.

    Noncontiguous operands are copied before the call, and a noncontiguous result is copied after it.
    """
    number = t.begin_loop("block", t.new(f"sdiv i64 {t.new(f'add i64 {length}, {BLOCK - 1}')}, {BLOCK}"))
    begin = t.new(f"mul i64 {number}, {BLOCK}")
    left = t.new(f"sub i64 {length}, {begin}")
    size = t.new(f"select i1 {t.new(f'icmp slt i64 {left}, {BLOCK}')}, i64 {left}, i64 {BLOCK}")
    t.store(size, "%slots", count)
    k = t.begin_loop("take", count)
    step, shift = t.load("%steps", k), t.load(shifts, k)
    there = t.new(f"add i64 {t.load('%args', k)}, {t.new(f'mul i64 {begin}, {step}')}")
    item = t.new(f"shl i64 1, {shift}")
    t.store(there, "%slots", k)
    t.leave_if(f"icmp eq i64 {step}, {item}", "take.end", "take.loose")
    own = t.new(f"getelementptr i8, ptr %blocks, i64 {t.new(f'mul i64 {k}, {BLOCK_BYTES}')}")
    here = t.new(f"ptrtoint ptr {own} to i64")
    t.store(here, "%slots", k)
    t.leave_if(f"icmp eq i64 {k}, {last}", "take.end", "take.read")
    # (a broadcast element was copied for the first block)
    again = t.new(f"and i1 {t.new(f'icmp eq i64 {step}, 0')}, {t.new(f'icmp ne i64 {number}, 0')}")
    t.do(f"br i1 {again}, label %take.end, label %take.copy")
    t.label("take.copy")
    _copy(t, "read", (there, step), (here, item), shift, size, "take.end")
    t.end_loop("take", reached=True)
    t.do(f"call void {t.load('%data', PACKED, 'ptr')}(ptr %slots, i64 0, i64 {size})")
    step, shift, here = t.load("%steps", last), t.load(shifts, last), t.load("%slots", last)
    there = t.new(f"add i64 {t.load('%args', last)}, {t.new(f'mul i64 {begin}, {step}')}")
    t.leave_if(f"icmp eq i64 {there}, {here}", "block.end", "give")
    _copy(t, "write", (here, t.new(f"shl i64 1, {shift}")), (there, step), shift, size, "block.end")
    t.end_loop("block", reached=True)


def _copy(
    t: Text, name: str, source: tuple[str, str], target: tuple[str, str], shift: str, count: str, behind: str
) -> None:
    """Emit code that copies strided elements. The parameter `count` is their number, and `behind` is the label of the block that follows."""
    for k in range(5):
        t.enter_if(f"icmp eq i64 {shift}, {k}", f"{name}.{k}", f"{name}.not{k}")
        at, kind = t.begin_loop(f"{name}.each{k}", count), f"i{8 << k}"
        addresses = [t.new(f"add i64 {first}, {t.new(f'mul i64 {at}, {step}')}") for first, step in (source, target)]
        read, written = (t.new(f"inttoptr i64 {address} to ptr") for address in addresses)
        t.do(f"store {kind} {t.new(f'load {kind}, ptr {read}, align 1')}, ptr {written}, align 1")
        t.end_loop(f"{name}.each{k}")
        t.jump(behind, f"{name}.not{k}")
    t.do(f"br label %{behind}")


def _reduction_text(entry: str, inputs: int) -> str:
    """Return the LLVM text of a reduction ufunc's inner loop. `inputs` is the number of arrays that the reduction reads."""
    t = Text()
    _begin(t, entry, MOST_SLOTS)
    k = t.begin_loop("copy", t.load("%data", SLOTS))
    t.store(t.load(t.at("%data", INDICES + inputs + 2), k), "%slots", k)
    t.end_loop("copy")
    function = t.load("%data", ENTRY, "ptr")
    *places, length = (t.at("%slots", t.load("%data", INDICES + n)) for n in range(inputs + 2))
    t.store(t.load("%dims", 1), length, 0)
    for n, place in enumerate(places):
        t.store(t.load("%args", n), place, 0)
    t.begin_loop("row", t.load("%dims", 0))
    t.do(f"call void {function}(ptr %slots, i64 0, i64 1)")
    for n, place in enumerate(places):
        t.store(t.new(f"add i64 {t.load(place, 0)}, {t.load('%steps', n)}"), place, 0)
    t.end_loop("row")
    return _end(t)
