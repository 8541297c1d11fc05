"""LLVM IR that prepares operands for NumPy: small arrays and scalars, also in tuples and lists.

In: the arguments of a call. Out: code that continues with the operands' NumPy arrays and their common device, or
branches to ``give.up``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from weft.dsl.functions.products import SHORT_SUM
from weft.dsl.immediate.at_call import Implementation, types_of
from weft.dsl.immediate.callers import LIBRARY, PROGRAM, SHIFT, SLOTS
from weft.dsl.immediate.native_objects_text import (
    BASE,
    C_ORDER,
    DTYPE,
    FLAGS,
    ITEMSIZE,
    LENGTHS,
    NUMBER,
    STRIDES,
    WRITABLE,
    ObjectText,
)
from weft.dsl.immediate.small_work import ANY_SIZE, EXACT_BYTES, LARGEST, MOST_PRODUCTS, MOVED_ALONE
from weft.runtime import TUPLE_ITEMS, TUPLE_LENGTH

MOST = 8  # maximum number of operands
SHIFTS = Implementation._fields.index("shifts")
_BY_BLAS, _INTEGERS = types_of("fdFD"), types_of("?bBhHiIlLqQ")
# The dtypes of large arrays that exact reductions reduce immediately: bools and integers, without and with floats.
EXACT_TYPES = _INTEGERS, _INTEGERS | types_of("fd")
# Binary logarithms of the item sizes of dtypes, in two bits for each type number.
_SIZES = sum({1: 0, 2: 1, 4: 2, 8: 3}[np.dtype(code).itemsize] << 2 * np.dtype(code).num for code in "?bBhHiIlLqQfd")


class Mode(IntEnum):
    """The kind of operation that a builtin executes."""

    CALL = 0  # function(*operands), which returns a new array
    PRODUCT = 1  # the same for matrices, whose shapes do not broadcast
    REFLECTED = 2  # function(second, first)
    SHOW = 3  # first[second], which returns a view
    PUT = 4  # first[second] = third
    IN_PLACE = 5  # function(first, second), which writes to the first operand
    UFUNC = 6  # a ufunc of weft, which is the first argument, applied to the other arguments
    PROTOCOL = 7  # __array_ufunc__(self, ufunc, "__call__", *operands)
    VIEW = 8  # function(first, *scalars and tuples of scalars), whose result may be a view of the first operand
    SQUARE = 9  # function(first), where the second operand is 2
    CAST = 10  # function(first, dtype)
    # functions of any operands, including sequences of arrays, with any result:
    BROADCAST = 11  # ... of arrays that broadcast
    SMALL = 12  # ... of arrays that have few elements in total
    WRAPPED = 13  # ... the same for a wrapped NumPy function, which is the first argument
    GROWING = 14  # ... of arrays and numbers whose product limits the number of elements of the result
    WRITE = 15  # ... of arrays that have few elements, where the function writes to the first and returns None


class Alone(IntEnum):
    """How native code treats an array above the usual size limit if the operation stands alone (no other operation is fused with it)."""

    NOTHING = 0
    COMPUTE = 1  # compute an op on a medium-sized array
    MOVE = 2  # copy elements of a medium-sized array in their order
    VIEW = 3  # return a view of an array of any size in C order


class OperandText(ObjectText):
    """Emitter of LLVM IR that checks and converts the operands of a builtin."""

    # addresses of stack slots, which hold addresses of objects or integers
    _taken: str
    _held: str
    _device: str
    _before: str
    _loops: str
    _count: str
    _allowed: str
    _first_type: str
    _uneven: str
    _by_loop: str
    _sum: str  # the sum, or the product, of the operands' numbers of elements
    _many: str  # whether there is a large operand
    _alone: str  # if nothing fuses with the op: elements of a medium-sized operand, or the limit on elements for copies
    _pair: str
    _shifts: str  # by how many bits the limit is shifted for each dtype
    _shifted: str  # whether an operand or the result exceeds the usual limit
    _numbers: str  # whether operands are Python numbers: 1 if ints, 2 if floats, 3 if both, and 0 if neither
    # values
    _views: str
    _any: str
    _grows: str
    _single: str  # a member of `Alone`
    _exact: str  # the dtypes of large arrays that an exact reduction reduces immediately
    _mode: str
    _limit: str
    _fixed_limit: str  # the limit ``IMMEDIATE[FIXED]``
    _skipped: str
    _last: str
    _has_out: str
    _positional: str
    _inputs: str  # number of positional arguments before `out`
    _total: str

    def _take_all(self) -> None:
        """Emit code that converts each operand to a NumPy array or scalar, and holds a reference to it."""
        t, known = self._t, self._known
        t.leave_if(f"icmp sgt i64 {self._total}, {MOST}", "slow", "take.some")
        # (An argument `out` needs the checks of the Python function.)
        t.leave_if(f"icmp sgt i64 {self._positional}, {self._inputs}", "slow", "take.begin")
        k = t.begin_loop("operand", self._total)
        thing, kind = self._open("operand", t.new(f"add i64 {k}, {self._skipped}"))
        t.enter_if(f"icmp slt i64 {k}, {self._positional}", "operand.positional", "operand.plain")
        found = self._values_of_operand("operand", thing, kind, "operand.plain")
        t.jump("operand.take", "operand.plain")
        t.enter_if(f"icmp eq ptr {kind}, {known['int']}", "operand.whole", "operand.fraction")
        self._note_number(1)
        self._take_factor(t.new(f"icmp slt i64 {k}, {self._positional}"), thing)
        t.jump("operand.weak", "operand.fraction")
        t.enter_if(f"icmp eq ptr {kind}, {known['float']}", "operand.float", "operand.unusual")
        self._note_number(2)
        t.jump("operand.weak", "operand.unusual")
        t.enter_if(f"icmp eq i64 {self._mode}, {Mode.CAST}", "operand.dtype", "operand.no.dtype")
        self._check_cast(thing, kind)
        t.jump("operand.weak", "operand.no.dtype")
        sequence = t.new(f"icmp eq ptr {kind}, {known['tuple']}")
        t.enter_if(f"and i1 {sequence}, {self._views}", "operand.tuple", "operand.listed")
        self._all_in("operand.tuple", thing, known["plain"])
        t.jump("operand.weak", "operand.listed")
        is_list = t.new(f"icmp eq ptr {kind}, {known['list']}")
        several = t.new(f"or i1 {sequence}, {is_list}")
        t.branch(f"and i1 {several}, {self._any}", "items", "operand.single")
        self._take_items(k, thing, sequence)
        t.label("operand.single")
        named = t.new(f"icmp eq ptr {kind}, {known['str']}")
        t.leave_if(f"and i1 {named}, {self._any}", "operand.weak", "operand.value")
        there = t.new(f"call ptr {known['PyDict_GetItemWithError']}(ptr {known['plain']}, ptr {kind})")
        t.leave_if(f"icmp eq ptr {there}, null", "give.up", "operand.as.it.is")
        number = t.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {there})")
        t.leave_if(f"icmp slt i64 {number}, 0", "operand.weak", "operand.strong")
        self._note_type(number)
        t.begin_block("operand.weak")
        t.begin_block("operand.take")
        taken = t.new(f"phi ptr [ {found}, %operand.small ], [ {thing}, %operand.weak ]")
        self._hold(k, self._increment_reference(taken))
        t.do("br label %operand.end")
        t.end_loop("operand", reached=True)
        t.branch(f"icmp eq ptr {t.load(self._device, 0, 'ptr')}, null", "give.up", "taken")

    def _hold(self, k: int | str, value: str) -> None:
        """Emit code that holds the reference to an object, as number `k`, until the call ends."""
        t = self._t
        t.do(f"store ptr {value}, ptr {t.at(self._taken, k)}")
        t.store(str(k + 1) if isinstance(k, int) else t.new(f"add i64 {k}, 1"), self._count, 0)

    def _check_cast(self, dtype: str, kind: str) -> None:
        """Emit a check that NumPy casts the first operand to `dtype` exactly as weft does. If this is uncertain, the code branches to ``give.up``."""
        t, known = self._t, self._known
        for name, table, key in (("kind", "kinds of dtypes", kind), ("cast", "casts", dtype)):
            found = t.new(f"call ptr {known['PyDict_GetItemWithError']}(ptr {known[table]}, ptr {key})")
            self._check(found, f"operand.dtype.{name}", "give.up")
        sources = t.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {found})")
        bit = t.new(f"and i64 {t.new(f'lshr i64 {sources}, {t.load(self._first_type, 0)}')}, 1")
        t.leave_if(f"icmp eq i64 {bit}, 0", "give.up", "operand.dtype.alike")

    def _note_number(self, kind: int) -> None:
        self._t.store(self._t.new(f"or i64 {self._t.load(self._numbers, 0)}, {kind}"), self._numbers, 0)

    def _take_factor(self, positional: str, number: str) -> None:
        """Emit code that multiplies the bound on the result's size by an integer argument, as in a call of `tile`."""
        t = self._t
        t.enter_if(f"and i1 {self._grows}, {positional}", "operand.factor", "operand.weak")
        factor = t.new(f"call i64 {self._known['PyLong_AsLongLong']}(ptr {number})")
        t.leave_if(f"icmp ugt i64 {factor}, {self._limit}", "give.up", "operand.modest")
        size = t.new(f"mul i64 {t.load(self._sum, 0)}, {factor}")
        t.store(size, self._sum, 0)
        t.branch(f"icmp sgt i64 {size}, {self._larger(self._limit)}", "give.up", "operand.weak")

    def _larger(self, limit: str) -> str:
        """Emit code that computes the larger of two element counts: `limit`, and the count that is stored in the stack slot `_alone`."""
        t = self._t
        alone = t.load(self._alone, 0)
        return t.new(f"select i1 {t.new(f'icmp sgt i64 {alone}, {limit}')}, i64 {alone}, i64 {limit}")

    def _open(self, name: str, at: str) -> tuple[str, str]:
        """Emit code that loads an argument and its type.

        If the argument is the `out` tuple of an ``__array_ufunc__`` call, its only item is loaded.
        """
        t, known = self._t, self._known
        packed = t.load("%given", at, "ptr")
        kind = self._type(packed)
        t.begin_block(f"{name}.given")
        protocol, last = t.new(f"icmp eq i64 {self._mode}, {Mode.PROTOCOL}"), t.new(f"icmp eq i64 {at}, {self._last}")
        out = t.new(f"and i1 {t.new(f'and i1 {protocol}, {last}')}, {self._has_out}")
        is_tuple = t.new(f"icmp eq ptr {kind}, {known['tuple']}")
        t.enter_if(f"and i1 {out}, {is_tuple}", f"{name}.out", f"{name}.open")
        t.enter_if(f"icmp eq i64 {self._word(packed, TUPLE_LENGTH, 'i64')}, 1", f"{name}.one", "give.up")
        single = self._word(packed, TUPLE_ITEMS)
        own = self._type(single)
        t.enter_if(f"icmp eq ptr {own}, {known['ndarray']}", f"{name}.open", "give.up")
        thing = t.new(f"phi ptr [ {packed}, %{name}.given ], [ {single}, %{name}.one ]")
        return thing, t.new(f"phi ptr [ {kind}, %{name}.given ], [ {own}, %{name}.one ]")

    def _take_items(self, k: str, things: str, is_tuple: str) -> None:
        """Emit code that copies a tuple or list, replacing weft arrays by NumPy arrays."""
        t, known = self._t, self._known
        t.label("items")
        count = t.new(f"call i64 {known['PySequence_Size']}(ptr {things})")
        t.leave_if(f"icmp sgt i64 {count}, {self._limit}", "give.up", "items.few")
        made = self._check(t.new(f"call ptr {known['PyList_New']}(i64 {count})"), "items.made", "leave")
        slot = t.at(self._taken, k)
        t.do(f"store ptr {made}, ptr {slot}")
        t.store(t.new(f"add i64 {k}, 1"), self._count, 0)
        get = t.new(f"select i1 {is_tuple}, ptr {known['PyTuple_GetItem']}, ptr {known['PyList_GetItem']}")
        m = t.begin_loop("item", count)
        thing = self._check(t.new(f"call ptr {get}(ptr {things}, i64 {m})"), "item.there", "leave")
        kind = self._type(thing)
        found = self._values_of_operand("item", thing, kind, "item.plain")
        t.jump("item.take", "item.plain")
        listed, packed = (t.new(f"icmp eq ptr {kind}, {known[each]}") for each in ("list", "tuple"))
        t.enter_if(f"or i1 {listed}, {packed}", "item.nested", "item.alone")
        self._are_numbers("item.nested", thing, listed)
        t.jump("item.weak", "item.alone")
        self._is_in("item.one", kind, known["plain"], "item.single")
        t.label("item.single")
        t.begin_block("item.weak")
        t.begin_block("item.take")
        taken = t.new(f"phi ptr [ {found}, %item.small ], [ {thing}, %item.weak ]")
        self._increment_reference(taken)
        done = t.new(f"call i32 {known['PyList_SetItem']}(ptr {made}, i64 {m}, ptr {taken})")
        t.branch(f"icmp eq i32 {done}, 0", "item.end", "leave")
        t.end_loop("item", reached=True)
        t.enter_if(f"icmp eq i1 {is_tuple}, 1", "items.tuple", "operand.end")
        whole = self._check(t.new(f"call ptr {known['PyList_AsTuple']}(ptr {made})"), "items.whole", "leave")
        t.do(f"store ptr {whole}, ptr {slot}")
        self._decrement_reference(made)
        t.do("br label %operand.end")

    def _are_numbers(self, name: str, things: str, is_list: str) -> None:
        """Emit code that accepts a short list or tuple of numbers. For any other list or tuple, the code branches to ``give.up``."""
        t, known = self._t, self._known
        count = t.new(f"call i64 {known['PySequence_Size']}(ptr {things})")
        t.leave_if(f"icmp sgt i64 {count}, {self._limit}", "give.up", f"{name}.few")
        get = t.new(f"select i1 {is_list}, ptr {known['PyList_GetItem']}, ptr {known['PyTuple_GetItem']}")
        k = t.begin_loop(f"{name}.number", count)
        each = self._check(t.new(f"call ptr {get}(ptr {things}, i64 {k})"), f"{name}.there", "leave")
        found = t.new(f"call ptr {known['PyDict_GetItemWithError']}(ptr {known['numbers']}, ptr {self._type(each)})")
        t.branch(f"icmp eq ptr {found}, null", "give.up", f"{name}.number.end")
        t.end_loop(f"{name}.number", reached=True)

    def _values(self, name: str, thing: str) -> str:
        """Emit code that loads the address of the NumPy array that holds a weft array's elements.

        The code branches to ``give.up`` if there is no such array, or if the operands are on different devices.
        """
        t = self._t
        values, device = self._field(thing, "Array._values"), self._field(thing, "Array._device")
        self._is_some(values, f"{name}.has", "give.up")
        self._is_some(device, f"{name}.has_device", f"{name}.stored")
        t.jump(f"{name}.valid", f"{name}.stored")
        storage = self._check(self._field(thing, "Array._storage"), f"{name}.storage", "give.up")
        buffer = self._field(storage, "Storage.buffer")
        self._is_some(buffer, f"{name}.buffer", f"{name}.stored_on_host")
        seen = self._field(buffer, "Buffer.values")
        self._is_some(seen, f"{name}.seen", "give.up")
        t.jump(f"{name}.root", f"{name}.stored_on_host")
        host = self._field(storage, "Storage.host")
        self._is_some(host, f"{name}.host", "give.up")
        t.begin_block(f"{name}.root")
        root = t.new(f"phi ptr [ {seen}, %{name}.seen ], [ {host}, %{name}.host ]")
        whole = t.new(f"icmp eq ptr {root}, {values}")
        part = t.new(f"icmp eq ptr {root}, {self._word(values, BASE)}")
        stored_on = self._field(storage, "Storage.device")
        t.enter_if(f"or i1 {whole}, {part}", f"{name}.still", "give.up")
        t.begin_block(f"{name}.valid")
        device = t.new(f"phi ptr [ {device}, %{name}.has_device ], [ {stored_on}, %{name}.still ]")
        before = t.load(self._device, 0, "ptr")
        unknown = t.new(f"icmp eq ptr {before}, null")
        same = t.new(f"icmp eq ptr {before}, {device}")
        t.enter_if(f"or i1 {unknown}, {same}", f"{name}.here", "give.up")
        t.do(f"store ptr {device}, ptr {self._device}")
        return values

    def _values_of_operand(self, name: str, thing: str, kind: str, otherwise: str, types: str = "") -> str:
        """Emit code that loads and checks an operand's NumPy array, or branches to `otherwise` for other operands."""
        t, known = self._t, self._known
        t.enter_if(f"icmp eq ptr {kind}, {known['Array']}", f"{name}.array", f"{name}.other")
        own = self._values(name, thing)
        t.jump(f"{name}.values", f"{name}.other")
        t.enter_if(f"icmp eq ptr {kind}, {known['ndarray']}", f"{name}.values", otherwise)
        found = t.new(f"phi ptr [ {own}, %{name}.here ], [ {thing}, %{name}.other ]")
        self._check_values(name, found, types or t.load(self._allowed, 0))
        return found

    def _of_protocol(self, fewer: str) -> str:
        """Emit code that looks up the ufunc of an ``__array_ufunc__`` call.

        Branch to `fewer` if operands are missing. Branch to ``give.up`` for a method of the ufunc, or for a ufunc that
        is not in the table.
        """
        t, known = self._t, self._known
        t.label("protocol")
        t.enter_if("icmp sgt i64 %count, 3", "protocol.some", fewer)
        named = f"ptr {t.load('%given', 2, 'ptr')}, ptr {known['call']}"
        differs = t.new(f"call i32 {known['PyUnicode_Compare']}({named})")
        t.enter_if(f"icmp eq i32 {differs}, 0", "protocol.call", "give.up")
        theirs = t.load("%given", 1, "ptr")
        listed = t.new(f"call ptr {known['PyDict_GetItemWithError']}(ptr {known['table']}, ptr {theirs})")
        self._check(listed, "protocol.way", "give.up")
        return listed

    def _is_free(self, name: str, thing: str, values: str) -> None:
        """Emit a branch to ``give.up`` if an array is read-only or its memory has other references."""
        t = self._t
        writable = t.new(f"and i32 {self._word(values, FLAGS, 'i32')}, {WRITABLE}")
        t.leave_if(f"icmp eq i32 {writable}, 0", "give.up", f"{name}.writable")
        self._is_some(self._field(thing, "Array._device"), f"{name}.own", f"{name}.shared")
        t.jump(f"{name}.free", f"{name}.shared")
        storage = self._field(thing, "Array._storage")
        buffer = self._field(storage, "Storage.buffer")
        self._is_some(buffer, f"{name}.unexported", f"{name}.on.host")
        t.branch(f"icmp eq i32 {self._word(buffer, 0, 'i32')}, 1", f"{name}.free", "give.up")
        t.label(f"{name}.on.host")
        self._is_some(self._field(storage, "Storage.host"), f"{name}.held", "give.up")
        t.begin_block(f"{name}.free")

    def _check_values(self, name: str, values: str, types: str) -> None:
        """Emit a branch to ``small`` if an array operand is small and has a suitable dtype.

        The dtype must be in `types` or have a compiled loop. The array must broadcast with the previous operand to few
        elements. Some functions accept larger arrays.
        """
        t = self._t
        number = t.new(f"sext i32 {self._word(self._word(values, DTYPE), NUMBER, 'i32')} to i64")
        t.leave_if(f"icmp ugt i64 {number}, 62", "give.up", f"{name}.known")
        bit = t.new(f"and i64 {t.new(f'lshr i64 {types}, {number}')}, 1")
        t.enter_if(f"icmp eq i64 {bit}, 0", f"{name}.looped", f"{name}.alike")
        self._find_loop(name, number)
        t.label(f"{name}.alike")
        self._note_type(number)
        size = self._size(f"{name}.size", values)
        product = t.new(f"icmp eq i64 {self._mode}, {Mode.PRODUCT}")
        # (the ufunc `matmul` adds products in an order that depends on their number)
        matrices = t.new(f"icmp eq ptr {t.load(self._held, 0, 'ptr')}, {self._known['matmul']}")
        shift = t.new(f"lshr i64 {t.load(self._shifts, 0)}, {t.new(f'shl i64 {number}, 1')}")
        bits = t.new(f"and i64 {shift}, 3")
        any_size = t.new(f"icmp eq i64 {bits}, {ANY_SIZE}")
        shifted = t.new(f"shl i64 {self._limit}, {t.new(f'select i1 {any_size}, i64 {LARGEST}, i64 {bits}')}")
        limit = t.new(f"select i1 {matrices}, i64 {self._fixed_limit}, i64 {shifted}")
        self._note_shifted(size)
        t.enter_if(f"icmp sgt i64 {size}, {limit}", f"{name}.many", f"{name}.few")
        t.store("1", self._many, 0)
        t.leave_if(f"icmp eq i1 {product}, 1", f"{name}.few", f"{name}.large")
        self._is_alone(name, values, size)
        self._is_exact(name, values, number, size)
        t.label(f"{name}.few")
        before = t.load(self._before, 0, "ptr")
        t.do(f"store ptr {values}, ptr {self._before}")
        earlier = t.load(self._sum, 0)
        joined, grown = (t.new(f"{op} i64 {earlier}, {size}") for op in ("add", "mul"))
        together = t.new(f"select i1 {self._grows}, i64 {grown}, i64 {joined}")
        t.store(together, self._sum, 0)
        t.leave_if(f"icmp eq ptr {before}, null", f"{name}.small", f"{name}.two")
        t.enter_if(f"icmp sge i64 {self._mode}, {Mode.SMALL}", f"{name}.together", f"{name}.apart")
        t.branch(f"icmp sgt i64 {together}, {self._larger(shifted)}", "give.up", f"{name}.small")
        t.label(f"{name}.apart")
        t.enter_if(f"icmp eq i1 {product}, 1", f"{name}.product", f"{name}.pair")
        other = self._size(f"{name}.sized", before)
        axes = self._axes(before)
        t.leave_if(f"icmp eq i64 {axes}, 0", "give.up", f"{name}.inner")
        lengths = self._word(before, LENGTHS)
        length = t.load(lengths, t.new(f"sub i64 {axes}, 1"))
        products = t.new(f"mul i64 {size}, {other}")
        t.enter_if(f"icmp eq i64 {t.load(self._many, 0)}, 0", f"{name}.little", f"{name}.blas")
        most = t.new(f"mul i64 {t.new(f'mul i64 {self._fixed_limit}, {length}')}, {MOST_PRODUCTS}")
        t.branch(f"icmp sgt i64 {products}, {most}", "give.up", f"{name}.small")
        t.label(f"{name}.blas")
        self._is_by_blas(name, [axes, self._axes(values)], number, length, products)
        t.label(f"{name}.pair")
        self._broadcast(name, before, values, self._larger(shifted))
        t.label(f"{name}.small")

    def _note_shifted(self, size: str) -> None:
        """Emit code that sets a flag if an array exceeds the usual limit on elements. For some dtypes, the limit is larger: the usual limit, shifted left."""
        t = self._t
        beyond = t.new(f"zext i1 {t.new(f'icmp sgt i64 {size}, {self._limit}')} to i64")
        t.store(t.new(f"or i64 {t.load(self._shifted, 0)}, {beyond}"), self._shifted, 0)

    def _is_alone(self, name: str, values: str, size: str) -> None:
        """Emit code that tests whether an op on a medium-sized array would fuse with other ops. If not, the array is treated like a small one.

        The code then branches to ``few``, with the effect of `small_work.is_alone`, for calls outside of weft's modules. If the
        builtin has no action for such arrays (`Alone.NOTHING`), the code that `_is_exact` emits follows.
        """
        t, known = self._t, self._known
        t.enter_if(f"icmp ne i64 {self._single}, {Alone.NOTHING}", f"{name}.op", f"{name}.reduced")
        computes, views = (t.new(f"icmp eq i64 {self._single}, {each}") for each in (Alone.COMPUTE, Alone.VIEW))
        flags = t.new(f"and i32 {self._word(values, FLAGS, 'i32')}, {C_ORDER}")
        width = self._word(self._word(values, DTYPE), ITEMSIZE, "i64")
        last = t.load(self._word(values, STRIDES), t.new(f"sub i64 {self._axes(values)}, 1"))
        in_order, in_rows = t.new(f"icmp ne i32 {flags}, 0"), t.new(f"icmp eq i64 {last}, {width}")
        suitable = t.new(f"select i1 {views}, i1 {in_order}, i1 {t.new(f'or i1 {computes}, {in_rows}')}")
        t.enter_if(f"icmp eq i1 {suitable}, 1", f"{name}.suitable", "give.up")
        earlier = t.load(self._alone, 0)
        t.leave_if(f"icmp sle i64 {size}, {earlier}", f"{name}.allowed", f"{name}.first")
        device = t.load(self._device, 0, "ptr")
        t.enter_if(f"icmp eq ptr {device}, {known['cpu']}", f"{name}.on.cpu", "give.up")
        t.leave_if(f"icmp eq i1 {views}, 1", f"{name}.allowed", f"{name}.unasked")
        wanted = [
            f"icmp eq i64 {earlier}, 0",
            f"icmp ne ptr {t.load(self._held, 0, 'ptr')}, {known['matmul']}",
            f"icmp eq i64 {t.load(self._by_loop, 0)}, 0",
        ]
        self._all_hold(f"{name}.single", wanted, f"{name}.site")
        t.label(f"{name}.site")
        most = t.new(f"mul i64 {self._fixed_limit}, {MOVED_ALONE}")
        self._look_up_site(name, t.new(f"icmp sle i64 {t.new(f'mul i64 {size}, {width}')}, {most}"))
        # (For a copy, the total size of the operands is limited, not the size of each operand.)
        together = t.new(f"udiv i64 {most}, {width}")
        t.store(t.new(f"select i1 {computes}, i64 {size}, i64 {together}"), self._alone, 0)
        t.begin_block(f"{name}.allowed")
        t.store("0", self._many, 0)
        t.jump(f"{name}.few", f"{name}.reduced")

    def _look_up_site(self, name: str, few: str) -> None:
        """Emit code that looks up the call site in `ALONE`, the table of call sites whose last operation did not fuse.

        If the table has a positive count for the site, and the run-time bool `few` is true, the code decrements the count,
        as `was_evaluated_alone` does, and branches to ``lone``. Otherwise, it branches to ``give.up``.
        """
        t, known = self._t, self._known
        frame = self._check(t.new(f"call ptr {known['PyEval_GetFrame']}()"), f"{name}.framed", "give.up")
        code = t.new(f"call ptr {known['PyFrame_GetCode']}(ptr {frame})")
        offset = t.new(f"call i32 {known['PyFrame_GetLasti']}(ptr {frame})")
        made = [
            t.new(f"call ptr {known['PyLong_FromVoidPtr']}(ptr {code})"),
            t.new(f"call ptr {known['PyLong_FromLongLong']}(i64 {t.new(f'sext i32 {offset} to i64')})"),
        ]
        site = t.new(f"call ptr (i64, ...) {known['PyTuple_Pack']}(i64 2, ptr {made[0]}, ptr {made[1]})")
        found = t.new(f"call ptr {known['PyDict_GetItemWithError']}(ptr {known['sites alone']}, ptr {site})")
        for each in (code, *made):
            self._decrement_reference(each)
        t.enter_if(f"icmp ne ptr {found}, null", f"{name}.known.site", f"{name}.other.site")
        left = t.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {self._word(found, TUPLE_ITEMS)})")
        t.enter_if(f"and i1 {t.new(f'icmp sgt i64 {left}, 0')}, {few}", f"{name}.counts", f"{name}.other.site")
        fewer = t.new(f"call ptr {known['PyLong_FromLongLong']}(i64 {t.new(f'sub i64 {left}, 1')})")
        calls = self._word(found, TUPLE_ITEMS + 8)
        pair = t.new(f"call ptr (i64, ...) {known['PyTuple_Pack']}(i64 2, ptr {fewer}, ptr {calls})")
        done = t.new(f"call i32 {known['PyDict_SetItem']}(ptr {known['sites alone']}, ptr {site}, ptr {pair})")
        for each in (fewer, pair, site):
            self._decrement_reference(each)
        t.branch(f"icmp eq i32 {done}, 0", f"{name}.lone", "give.up")
        t.label(f"{name}.other.site")
        self._decrement_reference(site)
        t.jump("give.up", f"{name}.lone")

    def _is_exact(self, name: str, values: str, number: str, size: str) -> None:
        """Emit a branch that is taken if a reduction is exact. An exact reduction, such as a maximum, has the same result in any order.

        The branch leads to ``few``, otherwise to ``give.up``. An exact reduction has a higher size limit. It must reduce a whole contiguous array.
        """
        t = self._t
        t.store("0", self._many, 0)
        most = t.new(f"mul i64 {self._fixed_limit}, {EXACT_BYTES}")
        order = t.new(f"and i32 {self._word(values, FLAGS, 'i32')}, {C_ORDER}")
        # (a vector has a single axis to reduce)
        row, unnamed = t.new(f"icmp eq i64 {self._axes(values)}, 1"), t.new("icmp eq ptr %names, null")
        alone = t.new(f"and i1 {t.new('icmp eq i64 %count, 1')}, {unnamed}")
        bit = t.new(f"and i64 {t.new(f'lshr i64 {self._exact}, {number}')}, 1")
        position = t.new(f"shl i64 {number}, 1")
        shift = t.new(f"and i64 {t.new(f'lshr i64 {_SIZES}, {position}')}, 3")
        wanted = [
            f"icmp sle i64 {t.new(f'shl i64 {size}, {shift}')}, {most}",
            f"or i1 {row}, {alone}",
            f"icmp ne i64 {bit}, 0",
            f"icmp ne i32 {order}, 0",
        ]
        self._all_hold(f"{name}.exact", wanted, f"{name}.few")

    def _all_hold(self, name: str, wanted: Sequence[str], on: str) -> None:
        t = self._t
        for k, each in enumerate(wanted):
            t.enter_if(each, f"{name}.{k}", "give.up")
        t.do(f"br label %{on}")

    def _is_by_blas(self, name: str, axes: Sequence[str], number: str, length: str, products: str) -> None:
        """Emit code that tests whether BLAS should compute a matrix product with a large operand, but a small result.

        If so, the code branches to ``small``, the label for accepted operands, otherwise to ``give.up``.
        """
        t, known = self._t, self._known
        t.store("0", self._many, 0)
        function = t.load(self._held, 0, "ptr")
        usual = [t.new(f"icmp eq ptr {function}, {known[each]}") for each in ("dot", "matmul")]
        t.do(f"store ptr {known['matmul']}, ptr {self._held}")
        right, long = t.new(f"or i1 {usual[0]}, {usual[1]}"), t.new(f"icmp sgt i64 {length}, {SHORT_SUM}")
        t.enter_if(f"and i1 {right}, {long}", f"{name}.long", "give.up")
        found = t.new(f"udiv i64 {products}, {t.new(f'mul i64 {length}, {length}')}")
        bit = t.new(f"and i64 {t.new(f'lshr i64 {_BY_BLAS}, {number}')}, 1")
        heard = t.new(f"call ptr {known['PyObject_GetAttr']}(ptr {known['Listening']}, ptr {known['listeners']})")
        self._check(heard, f"{name}.quiet", "give.up")
        self._decrement_reference(heard)  # (its class keeps it alive)
        wanted = [
            *(f"icmp ule i64 {t.new(f'sub i64 {each}, 1')}, 1" for each in axes),
            f"icmp sle i64 {found}, {self._limit}",
            f"icmp sgt i64 {found}, 1",
            f"icmp eq i64 {t.load(self._uneven, 0)}, 0",
            f"icmp ne i64 {bit}, 0",
            f"icmp eq i64 {self._word(heard, TUPLE_LENGTH, 'i64')}, 0",
        ]
        self._all_hold(f"{name}.wanted", wanted, f"{name}.small")

    def _note_type(self, number: str) -> None:
        """Emit code that records whether the operands have different dtypes."""
        t = self._t
        earlier = t.load(self._first_type, 0)
        t.store(number, self._first_type, 0)
        differs = t.new(f"and i1 {t.new(f'icmp ne i64 {earlier}, -1')}, {t.new(f'icmp ne i64 {earlier}, {number}')}")
        t.store(t.new(f"or i64 {t.load(self._uneven, 0)}, {t.new(f'zext i1 {differs} to i64')}"), self._uneven, 0)

    def _find_loop(self, name: str, number: str) -> None:
        """Emit code that finds an op's compiled loop for a dtype, or branches to ``give.up``."""
        t, known = self._t, self._known
        as_object = t.new(f"call ptr {known['PyLong_FromLongLong']}(i64 {number})")
        self._check(as_object, f"{name}.boxed", "give.up")
        found = t.new(
            f"call ptr {known['PyDict_GetItemWithError']}(ptr {t.load(self._loops, 0, 'ptr')}, ptr {as_object})"
        )
        self._decrement_reference(as_object)
        self._check(found, f"{name}.loop", "give.up")
        t.do(f"store ptr {found}, ptr {self._held}")
        t.store("1", self._by_loop, 0)
        t.do(f"br label %{name}.alike")

    def _broadcast(self, name: str, one: str, other: str, limit: str) -> None:
        """Emit a branch to ``small`` if two shapes broadcast to few elements, and to ``give.up`` otherwise."""
        t = self._t
        counts = [self._axes(one), self._axes(other)]
        lengths = [self._word(each, LENGTHS) for each in (one, other)]
        most = t.new(f"select i1 {t.new(f'icmp sgt i64 {counts[0]}, {counts[1]}')}, i64 {counts[0]}, i64 {counts[1]}")
        t.store("1", self._product, 0)
        k = t.begin_loop(f"{name}.axis", most)
        own = []
        for m, (count, where) in enumerate(zip(counts, lengths, strict=True)):
            at = t.new(f"sub i64 {t.new(f'sub i64 {count}, 1')}, {k}")
            t.leave_if(f"icmp slt i64 {at}, 0", f"{name}.axis.{m}.none", f"{name}.axis.{m}.own")
            length = t.load(where, at)
            t.jump(f"{name}.axis.{m}.done", f"{name}.axis.{m}.none")
            t.begin_block(f"{name}.axis.{m}.done")
            own.append(t.new(f"phi i64 [ {length}, %{name}.axis.{m}.own ], [ 1, %{name}.axis.{m}.none ]"))
        longest = t.new(f"select i1 {t.new(f'icmp sgt i64 {own[0]}, {own[1]}')}, i64 {own[0]}, i64 {own[1]}")
        t.store(t.new(f"mul i64 {t.load(self._product, 0)}, {longest}"), self._product, 0)
        t.end_loop(f"{name}.axis")
        self._note_shifted(t.load(self._product, 0))
        t.branch(f"icmp sgt i64 {t.load(self._product, 0)}, {limit}", "give.up", f"{name}.small")

    def _fill(self, array: str, values: str) -> None:
        """Emit code that initializes a new weft array over the memory of the NumPy array `values`."""
        t = self._t
        self._set(array, "Array._values", values)
        flags = t.new(f"and i32 {self._word(values, FLAGS, 'i32')}, {C_ORDER}")
        # (An array in Fortran order has a view, which is created when it is first needed.)
        view = t.new(f"select i1 {t.new(f'icmp ne i32 {flags}, 0')}, ptr {self._known['None']}, ptr null")
        for name, value in (("_device", t.load(self._device, 0, "ptr")), ("_view", view)):
            self._set(array, f"Array.{name}", self._increment_reference(value))

    def _branch_on_caller(self, name: str, library: str, own: str, failed: str, result: str = "") -> None:
        """Emit branches on the caller: to `library` for a library that does not use weft, and to `own` for other code.

        The code also branches to `library` if the NumPy array `result` has few elements and the caller is a module of
        the program that does not import weft. For a module that is not in the table, the code calls a Python function.
        If this function raises an error, branch to `failed`.
        """
        t, known = self._t, self._known
        callers, get = known["callers"], known["PyEval_GetGlobals"]
        t.leave_if(f"icmp eq i64 {t.load(callers, 0)}, 0", own, f"{name}.redirected")
        names = t.new(f"ptrtoint ptr {t.new(f'call ptr {get}()')} to i64")
        slot = t.new(f"and i64 {t.new(f'lshr i64 {names}, {SHIFT}')}, {SLOTS - 1}")
        at = t.new(f"add i64 {t.new(f'shl i64 {slot}, 1')}, 1")
        t.enter_if(f"icmp eq i64 {t.load(callers, at)}, {names}", f"{name}.known", f"{name}.unknown")
        kind = t.load(callers, t.new(f"add i64 {at}, 1"))
        t.branch(f"icmp eq i64 {kind}, {LIBRARY}", library, f"{name}.own" if result else own)
        if result:
            t.label(f"{name}.own")
            t.enter_if(f"icmp eq i64 {kind}, {PROGRAM}", f"{name}.sized", own)
            size = self._size(f"{name}.size", result)
            t.branch(f"icmp sle i64 {t.new(f'mul i64 {size}, {size}')}, {self._fixed_limit}", library, own)
        t.label(f"{name}.unknown")
        judged = self._check(self._vectorcall(known["is_library"], "null", 0), f"{name}.judged", failed)
        self._decrement_reference(judged)  # (True and False are immortal)
        t.branch(f"icmp eq ptr {judged}, {known['True']}", library, own)

    def _count_read(self) -> None:
        looks = self._known["looks"]
        self._t.store(self._t.new(f"add i64 {self._t.load(looks, 0)}, 1"), looks, 0)
