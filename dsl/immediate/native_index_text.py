"""LLVM IR that replaces the weft arrays in an index, so that NumPy accepts the index.

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
        """Emit branches to ``basic`` for slices and integers, and to ``arrays`` for index arrays."""
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
        """Emit code that converts an index with weft arrays to a tuple that NumPy accepts.

        The index consists of integer arrays, integers and, for small arrays, masks. For any other index, branch to
        ``give.up``.
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
        t.do(f"store ptr {made}, ptr {t.at(self._taken, 1)}")
        t.store("2", self._count, 0)
        k = t.begin_loop(f"{name}.item", count)
        thing = t.load(items, k, "ptr")
        kind = self._type(thing)
        t.enter_if(f"icmp eq ptr {kind}, {known['Array']}", f"{name}.array", f"{name}.other")
        own = self._values(name, thing)
        t.jump(f"{name}.values", f"{name}.other")
        t.enter_if(f"icmp eq ptr {kind}, {known['ndarray']}", f"{name}.values", f"{name}.number")
        found = t.new(f"phi ptr [ {own}, %{name}.here ], [ {thing}, %{name}.other ]")
        self._check_values(name, found, types)
        t.jump(f"{name}.take", f"{name}.number")
        t.enter_if(f"icmp eq ptr {kind}, {known['int']}", f"{name}.take", "give.up")
        taken = t.new(f"phi ptr [ {found}, %{name}.small ], [ {thing}, %{name}.number ]")
        self._increment_reference(taken)
        t.do(f"store ptr {taken}, ptr {t.at(t.new(f'getelementptr i8, ptr {made}, i64 {TUPLE_ITEMS}'), k)}")
        t.end_loop(f"{name}.item")
        self._check(t.load(self._before, 0, "ptr"), f"{name}.some", "give.up")
        # Each selected item includes all of the remaining axes.
        k = t.begin_loop(f"{name}.behind", t.new(f"sub i64 {axes}, {count}"))
        length = t.load(lengths, t.new(f"add i64 {k}, {count}"))
        t.store(t.new(f"mul i64 {t.load(self._product, 0)}, {length}"), self._product, 0)
        t.end_loop(f"{name}.behind")
        mask = t.new(f"icmp eq i64 {t.load(self._first_type, 0)}, {np.dtype(bool).num}")
        mask = t.new(f"and i1 {mask}, {alone}")
        few = t.new(f"icmp sle i64 {t.load(self._product, 0)}, {self._limit}")
        t.enter_if(f"or i1 {mask}, {few}", f"{name}.taken", "give.up")
