"""Emission of LLVM IR for indexing. The emitted code converts an index that contains weft arrays to an index that NumPy accepts.

In: a key, and the NumPy array that it indexes. Out: code that builds the tuple for NumPy, if few elements are selected.
"""

from __future__ import annotations

import numpy as np

from weft.dsl.immediate.at_call import types_of
from weft.dsl.immediate.native_objects_text import LENGTHS
from weft.dsl.immediate.native_operands_text import OperandText
from weft.runtime import TUPLE_ITEMS, TUPLE_LENGTH

_MASKS, _INDICES = types_of("?"), types_of("bBhHiIlLqQ")


class IndexText(OperandText):
    """Emitter of LLVM IR that checks and converts the index of an index operation."""

    _pair: str  # address of a stack slot

    def _key(self, name: str, key: str, values: str) -> None:
        """Emit a branch to ``{name}.basic`` for a basic index, and to ``{name}.arrays`` for an index with arrays."""
        t, known = self._t, self._known
        kind = self._type(key)
        t.enter_if(f"icmp eq ptr {kind}, {known['tuple']}", f"{name}.tuple", f"{name}.single")
        self._all_in(f"{name}.items", key, known["table"], f"{name}.several")
        t.jump(f"{name}.basic", f"{name}.single")
        self._is_in(f"{name}.one", kind, known["table"], f"{name}.basic", f"{name}.alone")
        t.label(f"{name}.several")
        count, items = self._word(key, TUPLE_LENGTH, "i64"), t.new(f"getelementptr i8, ptr {key}, i64 {TUPLE_ITEMS}")
        t.jump(f"{name}.index", f"{name}.alone")
        t.do(f"store ptr {key}, ptr {self._pair}")
        t.begin_block(f"{name}.index")
        count = t.new(f"phi i64 [ {count}, %{name}.several ], [ 1, %{name}.alone ]")
        items = t.new(f"phi ptr [ {items}, %{name}.several ], [ {self._pair}, %{name}.alone ]")
        self._index(f"{name}.index", items, count, values)
        t.do(f"br label %{name}.arrays")

    def _index(self, name: str, items: str, count: str, values: str) -> None:
        """Emit code that converts an array index to a tuple that NumPy accepts. In this tuple, NumPy arrays replace weft arrays.

        The index consists of integer arrays, lists of integers, integers, slices and, for small arrays, masks. For any
        other index, the code branches to ``give.up``.
        """
        t, known = self._t, self._known
        axes, lengths = self._axes(values), self._word(values, LENGTHS)
        little = t.new(f"icmp sle i64 {self._size(f'{name}.whole', values)}, {self._limit}")
        alone = t.new(f"icmp eq i64 {count}, 1")
        # (A mask of a small array selects at most all of its elements, and of one axis at most the whole axis.)
        types = t.new(f"select i1 {little}, i64 {_INDICES | _MASKS}, i64 {_INDICES}")
        none = t.new(f"icmp eq i64 {self._limit}, 0")
        t.leave_if(f"or i1 {none}, {t.new(f'icmp sgt i64 {count}, {axes}')}", "give.up", f"{name}.fits")
        made = self._check(t.new(f"call ptr {known['PyTuple_New']}(i64 {count})"), f"{name}.new", "leave")
        self._hold(1, made)
        k = t.begin_loop(f"{name}.item", count)
        thing = t.load(items, k, "ptr")
        kind, slot = self._type(thing), t.at(t.new(f"getelementptr i8, ptr {made}, i64 {TUPLE_ITEMS}"), k)
        t.enter_if(f"icmp eq ptr {kind}, {known['Array']}", f"{name}.array", f"{name}.other")
        own = self._values(name, thing)
        t.jump(f"{name}.values", f"{name}.other")
        t.leave_if(f"icmp eq ptr {kind}, {known['ndarray']}", f"{name}.values", f"{name}.maybe.list")
        t.enter_if(f"icmp eq ptr {kind}, {known['list']}", f"{name}.list", f"{name}.number")
        converted = self._convert_list(name, thing)
        t.do(f"store ptr {converted}, ptr {slot}")  # (the tuple holds the only reference)
        t.begin_block(f"{name}.values")
        found = t.new(
            f"phi ptr [ {own}, %{name}.here ], [ {thing}, %{name}.other ], [ {converted}, %{name}.list.converted ]"
        )
        self._check_values(name, found, types)
        there = t.new(f"load ptr, ptr {slot}")
        t.branch(f"icmp eq ptr {there}, null", f"{name}.take", f"{name}.item.end")
        t.label(f"{name}.number")
        whole, part = (t.new(f"icmp eq ptr {kind}, {known[each]}") for each in ("int", "slice"))
        t.enter_if(f"or i1 {whole}, {part}", f"{name}.take", "give.up")
        taken = t.new(f"phi ptr [ {found}, %{name}.small ], [ {thing}, %{name}.number ]")
        self._increment_reference(taken)
        t.do(f"store ptr {taken}, ptr {slot}")
        t.do(f"br label %{name}.item.end")
        t.end_loop(f"{name}.item", reached=True)
        self._check(t.load(self._before, 0, "ptr"), f"{name}.some", "give.up")
        # Each selected item includes all of the remaining axes, and at most all elements along a sliced axis.
        k = t.begin_loop(f"{name}.behind", axes)
        t.enter_if(f"icmp slt i64 {k}, {count}", f"{name}.behind.given", f"{name}.behind.whole")
        kind = self._type(t.load(items, k, "ptr"))
        t.enter_if(f"icmp eq ptr {kind}, {known['slice']}", f"{name}.behind.whole", f"{name}.behind.end")
        t.store(t.new(f"mul i64 {t.load(self._product, 0)}, {t.load(lengths, k)}"), self._product, 0)
        t.end_loop(f"{name}.behind")
        mask = t.new(f"icmp eq i64 {t.load(self._first_type, 0)}, {np.dtype(bool).num}")
        mask = t.new(f"and i1 {mask}, {alone}")
        few = t.new(f"icmp sle i64 {t.load(self._product, 0)}, {self._limit}")
        t.enter_if(f"or i1 {mask}, {few}", f"{name}.taken", "give.up")

    def _convert_list(self, name: str, things: str) -> str:
        """Emit code that converts a list to a NumPy array, if its first item is an integer."""
        t, known = self._t, self._known
        count = t.new(f"call i64 {known['PySequence_Size']}(ptr {things})")
        t.leave_if(f"icmp eq i64 {count}, 0", "give.up", f"{name}.list.some")
        first = self._check(
            t.new(f"call ptr {known['PyList_GetItem']}(ptr {things}, i64 0)"), f"{name}.list.first", "leave"
        )
        t.enter_if(f"icmp eq ptr {self._type(first)}, {known['int']}", f"{name}.list.whole", "give.up")
        t.do(f"store ptr {things}, ptr {self._pair}")
        return self._check(self._vectorcall(known["array"], self._pair, 1), f"{name}.list.converted", "leave")
