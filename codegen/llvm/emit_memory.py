"""The emitter's memory operations: loads, stores and pointers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weft.codegen.kernel_ir.operation import Operation, Value
from weft.codegen.llvm.emit_streams import LINE, StreamEmitter
from weft.codegen.llvm.emit_text import Item, literal, memory_type, scalar_type, suffix, wide
from weft.codegen.passes.choose_lanes import MOST_STEP

REGISTER = 64  # bytes of a vector from which elements are extracted


def array_alignment(dtype: np.dtype, count: int) -> int:
    """Return the alignment (in bytes) of an array with `count` elements. The array is a local variable or a table of constants."""
    return dtype.itemsize if count == 1 else 16


class MemoryEmitter(StreamEmitter):
    """The part of the emitter for loads, stores and pointers."""

    def element(self, pointer: Value, index: str, kind: str) -> str:
        """Return the address of an element."""
        index = self.wide_indices.get(index) or self.widened(index)
        return self.line(f"getelementptr inbounds {kind}, {self.where(pointer)} {self.scalar_of(pointer)}, i64 {index}")

    def load(self, operation: Operation) -> None:
        """Emit a load of a scalar, of a vector, or of one element per lane."""
        pointer, index = operation.operands
        item = self.environment[index]
        dtype = pointer.element
        memory = memory_type(dtype)
        notes = self.notes(operation)
        if item.lanes == 0:
            address = self.element(pointer, item.text, memory)
            size = operation.attributes.get("align") or dtype.itemsize
            word = "load volatile" if operation.attributes.get("volatile") else "load"
            text = self.line(f"{word} {memory}, {self.where(pointer)} {address}, align {size}{notes}")
            self.set(operation, Item(self.as_value(text, dtype, 0)))
            return
        lanes = self.lanes
        vector = wide(memory, lanes)
        if self.mask:
            text = self._masked_load(pointer, index, lanes)
        elif item.step == 1:
            address = self.element(pointer, item.text, memory)
            size = dtype.itemsize
            if self.fetching and pointer.type.space == "global":  # type: ignore[union-attr]
                self.fetch_ahead(operation, address, lanes * dtype.itemsize)
            text = self.line(f"load {vector}, {self.where(pointer)} {address}, align {size}{notes}")
        elif item.step == -1:
            width = scalar_type(self.kernel.index_dtype)
            last = self.line(f"add nsw {width} {item.text}, {1 - lanes}")
            address = self.element(pointer, last, memory)
            straight = self.line(f"load {vector}, {self.where(pointer)} {address}, align {dtype.itemsize}{notes}")
            text = self.shuffled(vector, reversed(range(lanes)), straight)
        elif (group := self._group_of(operation)) is not None:
            if operation is group[0]:
                texts = self._interleaved_load(pointer, item, lanes, notes)
                for each, text in zip(group, texts, strict=True):
                    self.set(each, Item(self.as_value(text, dtype, lanes), lanes))
            return
        elif isinstance(item.step, int) and 1 < item.step <= MOST_STEP:
            text = self._strided_vector_load(pointer, item, lanes, notes)
        else:
            text = "poison"
            for lane, position in enumerate(self.lane_indices(index)):
                address = self.element(pointer, position, memory)
                one = self.line(f"load {memory}, {self.where(pointer)} {address}, align {dtype.itemsize}{notes}")
                text = self.line(f"insertelement {vector} {text}, {memory} {one}, i64 {lane}")
        self.set(operation, Item(self.as_value(text, dtype, lanes), lanes))

    def _group_of(self, access: Operation) -> list[Operation] | None:
        """Return the group of accesses to which an access of a vectorized loop belongs (see `find_interleaved`).

        Return None if the accesses of the group do not fill contiguous memory.
        """
        group, step = self.interleaved.get(access), self.environment[access.operands[1]].step
        return group if group and 1 < len(group) <= MOST_STEP and len(group) == step else None

    def _interleaved_load(self, pointer: Value, item: Item, lanes: int, notes: str) -> list[str]:
        """Emit contiguous vector loads of a group, and the shuffles that give each member of the group its elements."""
        step, count = item.step, min(lanes, REGISTER // pointer.element.itemsize)
        assert isinstance(step, int)
        members: list[list[str]] = [[] for _ in range(step)]
        for first in range(0, lanes, count):
            pieces = self._pieces(pointer, item, range(first * step, (first + count) * step, count), count, notes)
            for member, parts in enumerate(members):
                parts.append(self._selected(pieces, [divmod(member + k * step, count) for k in range(count)], pointer))
        return [self.concatenated(parts, memory_type(pointer.element), count) for parts in members]

    def _strided_vector_load(self, pointer: Value, item: Item, lanes: int, notes: str) -> str:
        """Emit a load of every second, third or fourth element, by contiguous vector loads and shuffles."""
        step, count = item.step, min(lanes, REGISTER // pointer.element.itemsize)
        assert isinstance(step, int)
        # (the last vector ends at the last element that is needed)
        starts = [*range(0, (step - 1) * count, count), (count - 1) * (step - 1)]
        numbers = [min(k * step // count, step - 1) for k in range(count)]
        order = [(number, k * step - starts[number]) for k, number in enumerate(numbers)]
        parts = []
        for first in range(0, lanes * step, count * step):
            pieces = self._pieces(pointer, item, [first + start for start in starts], count, notes)
            parts.append(self._selected(pieces, order, pointer))
        return self.concatenated(parts, memory_type(pointer.element), count)

    def _pieces(self, pointer: Value, item: Item, starts: Iterable[int], count: int, notes: str) -> list[str]:
        """Emit loads of `count` consecutive elements each, at these distances from the index `item`."""
        memory, size = memory_type(pointer.element), pointer.element.itemsize
        base, found = self.element(pointer, item.text, memory), []
        for start in starts:
            address = self.line(f"getelementptr inbounds {memory}, {self.where(pointer)} {base}, i64 {start}")
            found.append(self.line(f"load {wide(memory, count)}, {self.where(pointer)} {address}, align {size}{notes}"))
        return found

    def _interleaved_store(self, group: list[Operation], lanes: int) -> None:
        """Emit the shuffles that interleave the elements of a group's members, and contiguous vector stores."""
        pointer, step, notes = group[0].operands[0], len(group), self.notes(group[0])
        dtype = pointer.element
        memory, count = memory_type(dtype), min(lanes, REGISTER // dtype.itemsize)
        values = [self.as_memory(self.text_of(each.operands[2], lanes), dtype, lanes) for each in group]
        base = self.element(pointer, self.environment[group[0].operands[1]].text, memory)
        for first in range(0, lanes, count):
            parts = values
            if lanes > count:
                parts = [self.shuffled(wide(memory, lanes), range(first, first + count), text) for text in values]
            for start in range(0, step * count, count):
                order = [divmod(k, step)[::-1] for k in range(start, start + count)]
                text = self._selected(parts, order, pointer)
                address = self.line(
                    f"getelementptr inbounds {memory}, {self.where(pointer)} {base}, i64 {first * step + start}"
                )
                self.do(
                    f"store {wide(memory, count)} {text}, {self.where(pointer)} {address}, align {dtype.itemsize}{notes}"
                )

    def _selected(self, parts: list[str], order: list[tuple[int, int]], pointer: Value) -> str:
        """Emit shuffles that select elements from vectors of a pointer's elements.

        For each element of the result, `order` contains the number of the vector and the position in it.
        """
        count, found = len(order), parts[0]
        for number, part in enumerate(parts[1:], 1):
            kept = [k if number > 1 or of else at for k, (of, at) in enumerate(order)]
            positions = [count + at if of == number else kept[k] for k, (of, at) in enumerate(order)]
            found = self.shuffled(wide(memory_type(pointer.element), count), positions, found, part)
        return found

    def concatenated(self, parts: list[str], kind: str, count: int) -> str:
        """Concatenate vectors of `count` elements each. The number of vectors must be a power of two."""
        while len(parts) > 1:
            parts = [
                self.shuffled(wide(kind, count), range(2 * count), left, right)
                for left, right in zip(parts[::2], parts[1::2], strict=True)
            ]
            count *= 2
        return parts[0]

    def _masked_load(self, pointer: Value, index: Value, lanes: int) -> str:
        """Emit a masked load of a vector.

        The lanes outside the mask contain 1 for floats and 0 for other dtypes. Vector functions and divisions are slow
        if any lane holds 0: ``hypot`` calls a scalar function for each such lane.
        """
        dtype = pointer.element
        memory = memory_type(dtype)
        vector = wide(memory, lanes)
        word, name, *where = self._masked_access(pointer, index, lanes, "load", "gather")
        outside = f"<{', '.join([f'{memory} 1.0'] * lanes)}>" if dtype.kind == "f" else "zeroinitializer"
        bits = [("i32", str(dtype.itemsize)), (f"<{lanes} x i1>", self.mask), (vector, outside)]
        return self.call(f"llvm.masked.{word}.{name}", vector, [(where[0], where[1]), *bits])

    def _masked_store(self, pointer: Value, index: Value, text: str, lanes: int) -> None:
        dtype = pointer.element
        word, name, *where = self._masked_access(pointer, index, lanes, "store", "scatter")
        values = [(wide(memory_type(dtype), lanes), text), (where[0], where[1])]
        bits = [("i32", str(dtype.itemsize)), (f"<{lanes} x i1>", self.mask)]
        self.call(f"llvm.masked.{word}.{name}", "void", [*values, *bits])

    def _masked_access(
        self, pointer: Value, index: Value, lanes: int, row: str, apart: str
    ) -> tuple[str, str, str, str]:
        """Return the LLVM intrinsic for a masked load or store of a vector, and the address of the access.

        The intrinsic's name is `row` for a contiguous access, and `apart` for a gather or scatter. The result consists
        of this name, its type suffix, and the type and the text of the address.
        """
        item, memory = self.environment[index], memory_type(pointer.element)
        where = self.where(pointer)
        if item.step == 1:
            return row, f"{suffix(memory, lanes)}.p0", where, self.element(pointer, item.text, memory)
        positions = self.text_of(index, lanes)
        width = scalar_type(self.kernel.index_dtype)
        if width != "i64":
            positions = self.line(f"sext <{lanes} x {width}> {positions} to <{lanes} x i64>")
        addresses = self.line(f"getelementptr {memory}, {where} {self.scalar_of(pointer)}, <{lanes} x i64> {positions}")
        return apart, f"{suffix(memory, lanes)}.v{lanes}p0", f"<{lanes} x {where}>", addresses

    def where(self, pointer: Value) -> str:
        """Return a pointer's LLVM type. It says where the memory is: ``ptr addrspace(3)`` means shared memory."""
        return self.type_of(pointer.type)

    def lane_indices(self, index: Value) -> list[str]:
        """Return the indices of all lanes as scalars."""
        item = self.environment[index]
        width = scalar_type(self.kernel.index_dtype)
        if item.step is None:
            vector = wide(width, self.lanes)
            return [self.line(f"extractelement {vector} {item.text}, i64 {k}") for k in range(self.lanes)]
        texts = [item.text]
        for _ in range(1, self.lanes):
            texts.append(self.line(f"add nsw {width} {texts[-1]}, {item.step}"))
        return texts

    def as_value(self, text: str, dtype: np.dtype, lanes: int) -> str:
        """Convert a value from its representation in memory, where a bool is a byte."""
        if dtype.kind != "b":
            return text
        return self.line(f"icmp ne {wide('i8', lanes)} {text}, {'zeroinitializer' if lanes else '0'}")

    def store(self, operation: Operation) -> None:
        """Emit a store of a scalar, of a vector, or of one element per lane."""
        pointer, index, value = operation.operands
        item = self.environment[index]
        dtype = pointer.element
        memory = memory_type(dtype)
        notes = self.notes(operation)
        if item.lanes == 0:
            kept = self.environment[value]
            lanes = kept.lanes
            text = self.as_memory(self.text_of(value, lanes), dtype, lanes)
            if lanes:
                # all lanes write the same element: the value of the last lane remains
                final = f"i64 {lanes - 1}"
                if self.active:
                    width = scalar_type(self.kernel.index_dtype)
                    final = f"{width} {self.line(f'add nsw {width} {self.active}, -1')}"
                text = self.line(f"extractelement {wide(memory, lanes)} {text}, {final}")
            address = self.element(pointer, item.text, memory)
            size = operation.attributes.get("align") or dtype.itemsize
            word = "store volatile" if operation.attributes.get("volatile") else "store"
            self.do(f"{word} {memory} {text}, {self.where(pointer)} {address}, align {size}{notes}")
            return
        lanes = self.lanes
        vector = wide(memory, lanes)
        text = self.as_memory(self.text_of(value, lanes), dtype, lanes)
        if self.mask:
            self._masked_store(pointer, index, text, lanes)
            return
        if item.step == 1:
            address = self.element(pointer, item.text, memory)
            size = dtype.itemsize
            if operation in self.past_cache:
                size, notes = LINE, self.nontemporal_metadata()
            self.do(f"store {vector} {text}, {self.where(pointer)} {address}, align {size}{notes}")
            return
        if (group := self._group_of(operation)) is not None:
            if operation is group[-1]:
                self._interleaved_store(group, lanes)
            return
        for lane, position in enumerate(self.lane_indices(index)):
            address = self.element(pointer, position, memory)
            one = self.line(f"extractelement {vector} {text}, i64 {lane}")
            self.do(f"store {memory} {one}, {self.where(pointer)} {address}, align {dtype.itemsize}{notes}")

    def as_memory(self, text: str, dtype: np.dtype, lanes: int) -> str:
        """Convert a value to its representation in memory, where a bool is a byte."""
        if dtype.kind != "b":
            return text
        return self.line(f"zext {wide('i1', lanes)} {text} to {wide('i8', lanes)}")

    # -- pointers -----------------------------------------------------------------------------

    def local(self, operation: Operation) -> None:
        """Emit an allocation of local memory in the function's frame. All iterations of a loop use the same memory."""
        (result,) = operation.results
        dtype, count = result.element, operation.attributes["count"]
        kind = memory_type(dtype)
        align = operation.attributes.get("align") or array_alignment(dtype, count)
        self.set(operation, Item(self.alloca(kind if count == 1 else f"[{count} x {kind}]", align)))

    def offset(self, operation: Operation) -> None:
        """Emit pointer arithmetic."""
        pointer, index = operation.operands
        address = self.element(pointer, self.scalar_of(index), memory_type(pointer.element))
        self.set(operation, Item(address))

    def reinterpret(self, operation: Operation) -> None:
        """Reuse the operand's LLVM pointer as the result. LLVM pointers have no element type, so no code is needed."""
        self.set(operation, self.environment[operation.operands[0]])

    def address(self, operation: Operation) -> None:
        """Emit the conversion of a pointer to an integer."""
        (pointer,) = operation.operands
        self.set(operation, Item(self.line(f"ptrtoint {self.where(pointer)} {self.scalar_of(pointer)} to i64")))

    def pointer(self, operation: Operation) -> None:
        """Emit the conversion of an integer to a pointer."""
        (result,) = operation.results
        text = self.scalar_of(operation.operands[0])
        self.set(operation, Item(self.line(f"inttoptr i64 {text} to {self.where(result)}")))

    def table(self, operation: Operation) -> None:
        """Emit a constant array."""
        (result,) = operation.results
        dtype, values = result.element, operation.attributes["values"]
        kind = memory_type(dtype)
        texts = ["1" if v else "0" for v in values] if dtype.kind == "b" else [literal(v, dtype) for v in values]
        name = f"@table{self.fresh_number()}"
        where = self.where(result).removeprefix("ptr").lstrip()
        elements = ", ".join(f"{kind} {text}" for text in texts)
        self.globals.append(
            f"{name} = internal {where} constant [{len(texts)} x {kind}] [{elements}], align {array_alignment(dtype, len(texts))}"
        )
        self.set(operation, Item(name))
