"""Private copies of arrays that a kernel modifies only by atomics.

Each call of the entry function has its own copies. In: the arrays that `find_private_arrays` finds. Out: code at the
start of the entry function that creates a copy if a copy is worthwhile, plain updates of the copy in place of atomic
instructions, and code at the end that combines the copy with the array. Atomic instructions of several CPU threads on
the same cache line take about 50 times as long as plain updates. Invariant: no two CPU threads update the same copy. If
the array overlaps another array of the kernel, has more than `IN_CACHE` bytes, or has more elements than half the
number of threads of the call, the atomic instructions run. Floats have private copies only if several calls run the
grid, because the order of the operations is unspecified only then.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.codegen.kernel_ir.operation import Kernel, Operation, Value
from weft.codegen.llvm.emit import Emitter, memory_type, scalar_type
from weft.codegen.llvm.host_atomics import atomic_update, emit_atomic, plain_update
from weft.codegen.llvm.host_grid import GridDialect, range_loop
from weft.codegen.passes.find_private_arrays import ArrayBounds, PrivateArray, find_private_arrays

IN_CACHE = 1 << 18  # maximum bytes of a private copy
THREADS_EACH = 2  # minimum number of threads of a call per element of a private copy


@dataclass(frozen=True)
class _Copy:
    """LLVM values that describe a private copy: its address, its length (0 without a copy), and whether it exists."""

    address: str
    count: str
    exists: str


class PrivateArrays:
    """Emitter of the private copies of a kernel's arrays."""

    def __init__(self, kernel: Kernel) -> None:
        self._arrays = find_private_arrays(kernel)
        self._copies: dict[PrivateArray, _Copy] = {}

    def open(self, emitter: Emitter, threads: str) -> None:
        """Emit code that creates private copies of arrays at the start of a kernel. Updates of a private copy need no atomic instructions.

        An array has a copy only if this saves time. Copies are filled with identity elements. `threads` is the number of kernel threads in this call.
        """
        for array in dict.fromkeys(self._arrays.values()):
            emitter.declarations["malloc"] = "declare noalias ptr @malloc(i64)"
            emitter.dialect.symbols |= {"malloc", "free"}
            count = _element_count(emitter, array.bounds)
            size = emitter.line(f"mul i64 {count}, {array.dtype.itemsize}")
            least = emitter.line(f"mul i64 {count}, {THREADS_EACH}")
            exists = emitter.line(f"icmp ule i64 {size}, {IN_CACHE}")
            exists = emitter.line(f"and i1 {exists}, {emitter.line(f'icmp ule i64 {least}, {threads}')}")
            if array.dtype.kind == "f":
                exists = emitter.line(f"and i1 {exists}, {_is_part(emitter)}")
            for other in array.others:
                exists = emitter.line(f"and i1 {exists}, {_are_apart(emitter, array.bounds, other)}")
            size = emitter.line(f"select i1 {exists}, i64 {size}, i64 1")
            address = emitter.line(f"call ptr @malloc(i64 {size})")
            exists = emitter.line(f"and i1 {exists}, {emitter.line(f'icmp ne ptr {address}, null')}")
            count = emitter.line(f"select i1 {exists}, i64 {count}, i64 0")
            with range_loop(emitter, "i64", "0", count) as index:
                kind = f"i{8 * array.dtype.itemsize}"
                spot = emitter.line(f"getelementptr inbounds {kind}, ptr {address}, i64 {index}")
                emitter.do(f"store {kind} {array.identity}, ptr {spot}, align {array.dtype.itemsize}")
            self._copies[array] = _Copy(address, count, exists)

    def close(self, emitter: Emitter) -> None:
        """Emit code that combines the private copies with the original arrays, and frees the copies."""
        for array, copy in self._copies.items():
            kind, align = f"i{8 * array.dtype.itemsize}", f"align {array.dtype.itemsize}"
            base = emitter.scalar_of(array.bounds.pointer)
            with range_loop(emitter, "i64", "0", copy.count) as index:
                spot = emitter.line(f"getelementptr inbounds {kind}, ptr {copy.address}, i64 {index}")
                value = emitter.line(f"load {kind}, ptr {spot}, {align}")
                changed = emitter.line(f"icmp ne {kind} {value}, {array.identity}")
                with emitter.when(changed):
                    spot = emitter.line(f"getelementptr inbounds {kind}, ptr {base}, i64 {index}")
                    value = emitter.from_integer(value, array.dtype)
                    atomic_update(emitter, array.combine, array.dtype, spot, value)
            emitter.call("free", "void", [("ptr", copy.address)])

    def update(self, emitter: Emitter, operation: Operation) -> bool:
        """Emit an atomic operation on an array that may have a private copy, and return True. For other arrays, emit nothing and return False."""
        array = self._arrays.get(operation)
        if array is None:
            return False
        copy, kind = self._copies[array], memory_type(array.dtype)
        pointer, index, value = operation.operands
        number = emitter.fresh_number()
        emitter.fork(copy.exists, f"private{number}", f"shared{number}")
        address = emitter.line(f"ptrtoint ptr {emitter.element(pointer, emitter.scalar_of(index), kind)} to i64")
        base = emitter.line(f"ptrtoint ptr {emitter.scalar_of(array.bounds.pointer)} to i64")
        distance = emitter.line(f"sub i64 {address}, {base}")
        spot = emitter.line(f"getelementptr inbounds i8, ptr {copy.address}, i64 {distance}")
        plain_update(emitter, operation.attributes["kind"], array.dtype, spot, emitter.scalar_of(value))
        emitter.jump(f"updated{number}", f"shared{number}")
        emit_atomic(emitter, operation)
        emitter.jump(f"updated{number}")
        return True


def _is_part(emitter: Emitter) -> str:
    """Emit a test of whether this call of the entry function runs only some of the grid's blocks."""
    first, total = len(emitter.kernel.parameters), ""
    for axis in range(3):
        extent = GridDialect.read_slot(emitter, first + axis)
        total = emitter.line(f"mul i64 {total}, {extent}") if total else extent
    return emitter.line(f"icmp ne i64 {emitter.line('sub i64 %end, %begin')}, {total}")


def _element_count(emitter: Emitter, array: ArrayBounds) -> str:
    count = "1"
    for length in array.lengths:
        text = _wide(emitter, length)
        count = text if count == "1" else emitter.line(f"mul i64 {count}, {text}")
    return count


def _wide(emitter: Emitter, value: Value) -> str:
    """Emit code that converts a length or a stride to an i64."""
    kind, text = scalar_type(value.type), emitter.scalar_of(value)  # type: ignore[arg-type]
    return text if kind == "i64" else emitter.line(f"sext {kind} {text} to i64")


def _range_of(emitter: Emitter, array: ArrayBounds) -> tuple[str, str]:
    """Emit code that computes the lowest address of an array, and the address after its last byte."""
    first = emitter.line(f"ptrtoint ptr {emitter.scalar_of(array.pointer)} to i64")
    if not array.strides:
        size = emitter.line(f"mul i64 {_element_count(emitter, array)}, {array.itemsize}")
        return first, emitter.line(f"add i64 {first}, {size}")
    last = emitter.line(f"add i64 {first}, {array.itemsize}")
    for length, stride in zip(array.lengths, array.strides, strict=True):
        steps = emitter.line(f"sub i64 {_wide(emitter, length)}, 1")
        by = emitter.line(f"mul i64 {_wide(emitter, stride)}, {array.unit}")
        distance = emitter.line(f"mul i64 {steps}, {by}")
        down = emitter.call("llvm.smin.i64", "i64", [("i64", distance), ("i64", "0")])
        up = emitter.call("llvm.smax.i64", "i64", [("i64", distance), ("i64", "0")])
        first, last = emitter.line(f"add i64 {first}, {down}"), emitter.line(f"add i64 {last}, {up}")
    return first, last


def _are_apart(emitter: Emitter, array: ArrayBounds, other: ArrayBounds) -> str:
    """Emit a test of whether two arrays do not overlap."""
    (start, end), (other_start, other_end) = (_range_of(emitter, each) for each in (array, other))
    before = emitter.line(f"icmp ule i64 {end}, {other_start}")
    return emitter.line(f"or i1 {before}, {emitter.line(f'icmp ule i64 {other_end}, {start}')}")
