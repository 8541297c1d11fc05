"""LLVM IR of the native code that executes operations on small arrays immediately.

In: the offsets of slots in weft's classes and of fields in NumPy's objects. Out: the LLVM IR of one function that
handles each `Mode`. The addresses of the tables and functions that the code uses are words of the `Builtin`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from weft.dsl.arrays.array import Array
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.immediate.at_call import COMMON
from weft.dsl.immediate.native_objects_text import BASE, C_ORDER, DTYPE, F_ORDER, FLAGS, NUMBER, WRITABLE, slot_offsets
from weft.dsl.immediate.native_operands_text import MOST, SHIFTS, Alone, Mode
from weft.dsl.immediate.native_results_text import ResultText
from weft.dsl.immediate.native_tables import FUNCTIONS, SHARED
from weft.fusion import Storage
from weft.runtime import DATA, FIXED, TUPLE_ITEMS, TUPLE_LENGTH, Buffer, Text

NAME = "weft_immediate"
# Words of a builtin, in addition to those of `native_tables`.
OWN = "function loops table slow method limit looks callers types mode exact most shifts single inputs".split()

# Sets of dtypes for assignments in which NumPy casts as weft does: destinations that accept any scalar, destinations
# that accept real scalars, real values, and integers.
_ANY = sum(1 << np.dtype(code).num for code in "?FD")
_FLOATING = sum(1 << np.dtype(code).num for code in "fd")
_REAL = COMMON & ~sum(1 << np.dtype(code).num for code in "FD")
_INTEGERS = COMMON & ~sum(1 << np.dtype(code).num for code in "fdFD")


@cache
def immediate_text() -> str:
    """Return the LLVM IR of the native code that executes operations on small arrays immediately.

    The code references no external symbols, and contains no constants in memory.
    """
    return _Immediate().text()


class _Immediate(ResultText):
    def __init__(self) -> None:
        self._at = slot_offsets(Array, Storage, Buffer, UFunc)
        self._t = t = Text()
        self._known = t.begin_builtin(NAME, (*FUNCTIONS, *SHARED, *OWN))
        self._taken = t.new(f"alloca ptr, i64 {MOST + 1}")
        self._pair = t.new(f"alloca ptr, i64 {MOST + 2}")
        self._held, self._device, self._before, self._result, self._loops = (t.new("alloca ptr") for _ in range(5))
        (
            self._count,
            self._allowed,
            self._product,
            self._first_type,
            self._uneven,
            self._by_loop,
            self._sum,
            self._many,
            self._shifts,
            self._shifted,
            self._numbers,
            self._alone,
        ) = (t.new("alloca i64") for _ in range(12))
        for where in (self._device, self._before, self._result, self._held):
            t.do(f"store ptr null, ptr {where}")
        self._views = t.new(f"icmp eq ptr {self._known['mode']}, inttoptr (i64 {int(Mode.VIEW)} to ptr)")
        self._types = t.new(f"ptrtoint ptr {self._known['types']} to i64")
        self._mode = t.new(f"ptrtoint ptr {self._known['mode']} to i64")
        self._any = t.new(f"icmp sge i64 {self._mode}, {int(Mode.BROADCAST)}")
        self._single = t.new(f"ptrtoint ptr {self._known['single']} to i64")
        self._exact = t.new(f"ptrtoint ptr {self._known['exact']} to i64")
        self._inputs = t.new(f"ptrtoint ptr {self._known['inputs']} to i64")
        self._grows = t.new(f"icmp eq i64 {self._mode}, {int(Mode.GROWING)}")
        self._limit, self._fixed_limit = (t.load(self._known["limit"], k) for k in (0, FIXED))
        t.store(self._types, self._allowed, 0)
        t.store("-1", self._first_type, 0)
        t.store(t.new(f"ptrtoint ptr {self._known['shifts']} to i64"), self._shifts, 0)
        for word in (self._count, self._uneven, self._by_loop, self._many, self._shifted, self._numbers, self._alone):
            t.store("0", word, 0)
        t.store(t.new(f"zext i1 {self._grows} to i64"), self._sum, 0)
        t.do(f"store ptr {self._known['function']}, ptr {self._held}")
        t.do(f"store ptr {self._known['loops']}, ptr {self._loops}")

    def text(self) -> str:
        t = self._t
        t.leave_if(f"icmp sgt i64 {self._limit}, 0", "on", "maybe.show")
        t.enter_if(f"icmp eq i64 {self._mode}, {Mode.SHOW}", "on", "slow")
        t.do(
            f"switch i64 {self._mode}, label %plain [ i64 {Mode.SHOW}, label %show i64 {Mode.PUT}, label %put "
            f"i64 {Mode.UFUNC}, label %ufunc i64 {Mode.PROTOCOL}, label %protocol i64 {Mode.WRAPPED}, label %wrapped "
            f"i64 {Mode.SQUARE}, label %square ]"
        )
        self._begin()
        self._take_all()
        self._call_function()
        self._show()
        self._put()
        self._end()
        return t.end()

    def _begin(self) -> None:
        t, known = self._t, self._known
        t.label("ufunc")
        t.enter_if("icmp sgt i64 %count, 1", "ufunc.some", "slow")
        itself = t.load("%given", 0, "ptr")
        known_way = self._check(self._field(itself, "UFunc.immediate"), "ufunc.way", "slow")
        t.do("br label %own")
        listed = self._of_protocol("slow")
        t.begin_block("own")
        way = t.new(f"phi ptr [ {known_way}, %ufunc.way ], [ {listed}, %protocol.way ]")
        way, squared = self._square_instead(way)
        function, types, loops = (self._word(way, TUPLE_ITEMS + 8 * k) for k in range(3))
        t.do(f"store ptr {function}, ptr {self._held}")
        t.do(f"store ptr {loops}, ptr {self._loops}")
        for word, each in ((self._allowed, types), (self._shifts, self._word(way, TUPLE_ITEMS + 8 * SHIFTS))):
            t.store(t.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {each})"), word, 0)
        # (`square` of bools has another dtype than `power`.)
        t.store(
            t.new(f"and i64 {t.load(self._allowed, 0)}, {t.new(f'select i1 {squared}, i64 -2, i64 -1')}"),
            self._allowed,
            0,
        )
        t.leave_if(f"icmp eq ptr {function}, {known['None']}", "slow", "own.named")
        t.leave_if("icmp eq ptr %names, null", "own.first", "own.option")
        t.enter_if(f"icmp eq i64 {self._word('%names', TUPLE_LENGTH, 'i64')}, 1", "own.option.one", "slow")
        option = f"ptr {self._word('%names', TUPLE_ITEMS)}, ptr {known['out']}"
        differs = t.new(f"call i32 {known['PyUnicode_Compare']}({option})")
        t.enter_if(f"icmp eq i32 {differs}, 0", "own.out", "slow")
        t.begin_block("own.first")
        # (`out` is passed by keyword or by position)
        more = t.new("phi i64 [ 0, %own.named ], [ 1, %own.out ]")
        given = t.new(f"sub i64 {t.new(f'add i64 %count, {more}')}, {t.new(f'zext i1 {squared} to i64')}")
        first = t.new(f"icmp eq i64 {self._mode}, {Mode.UFUNC}")
        skipped = t.new(f"select i1 {first}, i64 1, i64 3")
        # An additional operand is the destination of the result.
        inputs = t.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {self._word(way, TUPLE_ITEMS + 8 * 4)})")
        beyond = t.new(f"sub i64 {t.new(f'sub i64 {given}, {skipped}')}, {inputs}")
        t.branch(f"icmp ule i64 {t.new(f'sub i64 {beyond}, {more}')}, {t.new(f'sub i64 1, {more}')}", "take", "slow")
        behind, named = self._begin_with_operands()
        t.label("square")
        t.enter_if("icmp eq i64 %count, 2", "square.two", "slow")
        t.enter_if(f"icmp eq ptr {t.load('%given', 1, 'ptr')}, {known['two']}", "take", "slow")
        self._skipped = t.new(f"phi i64 [ {skipped}, %own.first ], [ {behind}, %plain.all ], [ 0, %square.two ]")
        self._named = t.new(f"phi i64 [ 0, %own.first ], [ {named}, %plain.all ], [ 0, %square.two ]")
        out = t.new(f"phi i64 [ {beyond}, %own.first ], [ 0, %plain.all ], [ 0, %square.two ]")
        end = t.new(f"phi i64 [ {given}, %own.first ], [ %count, %plain.all ], [ 1, %square.two ]")
        self._names = t.new("phi ptr [ null, %own.first ], [ %names, %plain.all ], [ %names, %square.two ]")
        self._last = t.new(f"sub i64 {end}, 1")
        self._has_out = t.new(f"icmp ne i64 {out}, 0")
        self._positional = t.new(f"sub i64 {end}, {self._skipped}")
        self._total = t.new(f"add i64 {self._positional}, {self._named}")

    def _square_instead(self, way: str) -> tuple[str, str]:
        """Emit code that replaces ``power(x, 2)`` by ``square(x)``, and leaves other powers to Python.

        Return the implementation, and whether it was replaced.
        """
        t, known = self._t, self._known
        raised = t.new(f"icmp eq ptr {way}, {known['power']}")
        last = t.load("%given", t.new("sub i64 %count, 1"), "ptr")
        two = t.new(f"icmp eq ptr {last}, {known['two']}")
        squared = t.new(f"and i1 {raised}, {two}")
        t.leave_if(f"icmp ne i1 {raised}, {squared}", "slow", "own.power")
        chosen = t.new(f"select i1 {squared}, ptr {known['square']}, ptr {way}")
        return chosen, squared

    def _begin_with_operands(self) -> tuple[str, str]:
        """Emit code that locates the operands among a call's arguments. They begin at index 0, or at index 1 if a wrapped function comes first.

        Return the index of the first operand and the number of keyword arguments.
        """
        t, known = self._t, self._known
        t.label("wrapped")
        t.enter_if("icmp sgt i64 %count, 1", "wrapped.some", "slow")
        itself = t.load("%given", 0, "ptr")
        way = t.new(f"call ptr {known['PyObject_GetAttr']}(ptr {itself}, ptr {known['immediate']})")
        self._check(way, "wrapped.way", "give.up")
        self._decrement_reference(way)  # (its owner keeps it alive)
        t.leave_if(f"icmp eq ptr {way}, {known['None']}", "slow", "wrapped.reads")
        t.do(f"store ptr {self._word(way, TUPLE_ITEMS)}, ptr {self._held}")
        t.begin_block("plain")
        behind = t.new(f"zext i1 {t.new(f'icmp eq i64 {self._mode}, {int(Mode.WRAPPED)}')} to i64")
        t.leave_if("icmp eq ptr %names, null", "plain.all", "plain.named")
        more = self._word("%names", TUPLE_LENGTH, "i64")
        t.enter_if(f"icmp eq i1 {self._any}, 1", "plain.names", "plain.known")
        option = t.begin_loop("option", more)
        name = t.load(t.new(f"getelementptr i8, ptr %names, i64 {TUPLE_ITEMS}"), option, "ptr")
        there = t.new(f"call ptr {known['PyDict_GetItemWithError']}(ptr {known['options']}, ptr {name})")
        t.branch(f"icmp eq ptr {there}, null", "give.up", "option.end")
        t.end_loop("option", reached=True)
        t.begin_block("plain.known")
        t.begin_block("plain.all")
        named = t.new(f"phi i64 [ 0, %plain ], [ {more}, %plain.known ]")
        t.do("br label %take")
        return behind, named

    def _call_function(self) -> None:
        t, known = self._t, self._known
        t.label("taken")
        t.enter_if(f"icmp eq i64 {t.load(self._many, 0)}, 0", "taken.few", "give.up")
        # (Beyond the usual limit, the result must have the operands' dtype or consist of bools.)
        whole = t.new(f"icmp ule i64 {t.load(self._first_type, 0)}, {np.dtype(np.uint64).num}")
        # (Operands may be Python ints that promote bools, but ints are also axes and other arguments.)
        flags = t.new(f"icmp eq i64 {t.load(self._first_type, 0)}, 0")
        promotes = t.new(f"and i1 {flags}, {t.new(f'icmp eq i64 {self._single}, {Alone.COMPUTE}')}")
        weakest = t.new(f"select i1 {promotes}, i64 0, i64 1")
        promoted = t.new(f"and i1 {whole}, {t.new(f'icmp sgt i64 {t.load(self._numbers, 0)}, {weakest}')}")
        mixed = t.new(f"or i1 {t.new(f'icmp ne i64 {t.load(self._uneven, 0)}, 0')}, {promoted}")
        # (A function that writes might cast in another way than weft.)
        beyond = t.new(f"icmp ne i64 {t.load(self._shifted, 0)}, 0")
        strict = t.new(f"or i1 {beyond}, {t.new(f'icmp eq i64 {self._mode}, {Mode.WRITE}')}")
        t.leave_if(f"and i1 {strict}, {mixed}", "give.up", "taken.alike")
        t.leave_if(f"icmp eq i64 {t.load(self._by_loop, 0)}, 0", "taken.well", "taken.loop")
        device = t.load(self._device, 0, "ptr")
        here = t.new(f"call ptr {known['PyObject_GetAttr']}(ptr {device}, ptr {known['host_math']})")
        self._decrement_reference(here)  # (True and False are immortal)
        even, own = t.new(f"icmp eq i64 {t.load(self._uneven, 0)}, 0"), t.new(f"icmp eq ptr {here}, {known['True']}")
        t.enter_if(f"and i1 {even}, {own}", "taken.well", "give.up")
        self._check_out()
        t.do(
            f"switch i64 {self._mode}, label %call [ i64 {Mode.IN_PLACE}, label %in.place i64 {Mode.WRITE}, label %in.place "
            f"i64 {Mode.REFLECTED}, label %turn ]"
        )
        t.label("turn")
        pair = [t.load(self._taken, k, "ptr") for k in range(2)]
        for k, value in enumerate(reversed(pair)):
            t.do(f"store ptr {value}, ptr {t.at(self._taken, k)}")
        t.jump("call", "in.place")
        first = t.load("%given", 0, "ptr")
        t.enter_if(f"icmp eq ptr {self._type(first)}, {known['Array']}", "in.place.array", "give.up")
        self._is_free("in.place", first, t.load(self._taken, 0, "ptr"))
        t.begin_block("call")
        function = self._choose_method(t.load(self._held, 0, "ptr"))
        result = self._vectorcall(function, self._taken, self._positional, self._names)
        self._count_read()
        self._check(result, "called", "leave")
        self._check_zero(result, beyond)
        in_place = t.new(f"icmp eq i64 {self._mode}, {Mode.IN_PLACE}")
        t.enter_if(f"or i1 {in_place}, {self._has_out}", "written", "result")
        self._decrement_reference(result)
        index = t.new(f"select i1 {in_place}, i64 0, i64 {self._last}")
        itself = t.load("%given", index, "ptr")
        # (If it is in a tuple, it is a NumPy array, which is used unchanged.)
        opened = t.load(
            self._taken, t.new(f"select i1 {in_place}, i64 0, i64 {t.new(f'sub i64 {index}, {self._skipped}')}"), "ptr"
        )
        packed = t.new(f"icmp eq ptr {self._type(itself)}, {known['tuple']}")
        itself = t.new(f"select i1 {packed}, ptr {opened}, ptr {itself}")
        self._return(self._increment_reference(itself))
        t.label("result")
        self._take_result(result)

    def _check_zero(self, result: str, beyond: str) -> None:
        """Emit a branch to ``give.up`` that is taken if a large array has been reduced to a float result of 0.0 or -0.0.

        The array may contain zeros of both signs, and a kernel may return a zero of the other sign.
        """
        t, known = self._t, self._known
        large = t.new(f"and i1 {beyond}, {t.new(f'icmp ne i64 {self._exact}, 0')}")
        t.enter_if(f"icmp eq i1 {large}, 1", "called.large", "called.well")
        kinds = [t.new(f"icmp eq ptr {self._type(result)}, {known[each]}") for each in ("float32", "float64")]
        t.enter_if(f"or i1 {kinds[0]}, {kinds[1]}", "called.float", "called.well")
        nonzero = t.new(f"call i32 {known['PyObject_IsTrue']}(ptr {result})")
        t.enter_if(f"icmp eq i32 {nonzero}, 0", "called.zero", "called.well")
        self._decrement_reference(result)
        t.jump("give.up", "called.well")

    def _choose_method(self, function: str) -> str:
        """Emit code that chooses between a NumPy function and the equivalent method of the first operand."""
        t, known = self._t, self._known
        most = t.new(f"ptrtoint ptr {known['most']} to i64")
        agree = t.new(f"icmp sle i64 {self._positional}, {most}")
        array = t.new(f"icmp eq ptr {self._type(t.load(self._taken, 0, 'ptr'))}, {known['ndarray']}")
        t.leave_if(f"icmp eq ptr {self._names}, null", "choose", "choose.named")
        # (the functions and methods agree about these keywords, but have different errors for unknown keywords)
        single = t.new(f"icmp eq i64 {self._word(self._names, TUPLE_LENGTH, 'i64')}, 1")
        option = f"ptr {known['options of methods']}, ptr {self._word(self._names, TUPLE_ITEMS)}"
        found = t.new(f"call ptr {known['PyDict_GetItemWithError']}({option})")
        there = t.new(f"icmp ne ptr {found}, null")
        plain = t.new(f"and i1 {single}, {there}")
        t.begin_block("choose")
        plain = t.new(f"phi i1 [ 1, %call ], [ {plain}, %choose.named ]")
        usable = t.new(f"and i1 {t.new(f'and i1 {agree}, {array}')}, {plain}")
        return t.new(f"select i1 {usable}, ptr {known['method']}, ptr {function}")

    def _take_result(self, result: str) -> None:
        """Emit code that converts the NumPy arrays in a function's result to weft arrays, and returns the result."""
        t, known = self._t, self._known
        kind = self._type(result)
        t.leave_if(f"icmp eq ptr {kind}, {known['ndarray']}", "made.array", "made.other")
        t.enter_if(f"icmp eq i1 {self._any}, 1", "made.any", "made.plain")
        # (scalars and None are returned as they are)
        there = t.new(f"call ptr {known['PyDict_GetItemWithError']}(ptr {known['plain']}, ptr {kind})")
        t.leave_if(f"icmp eq ptr {there}, null", "made.finish", "made.listed")
        t.leave_if(f"icmp eq ptr {kind}, {known['tuple']}", "made.finish", "made.plain")
        self._return(result)
        t.label("made.array")
        base = self._word(result, BASE)
        t.enter_if(f"icmp eq i1 {self._any}, 1", "made.some", "made.usual")
        once = t.new(f"icmp eq i32 {self._word(result, 0, 'i32')}, 1")
        t.leave_if(f"and i1 {once}, {t.new(f'icmp eq ptr {base}, null')}", "made.new", "made.finish")
        self._finish(result)
        t.label("made.usual")
        t.enter_if(f"icmp eq i1 {self._views}, 1", "made.seen", "made.new")
        first, values = t.load("%given", 0, "ptr"), t.load(self._taken, 0, "ptr")
        t.enter_if(f"icmp eq ptr {self._type(first)}, {known['Array']}", "made.own", "made.new")
        t.enter_if(f"icmp eq ptr {result}, {values}", "made.same", "made.base")
        self._decrement_reference(result)
        self._return(self._increment_reference(first))
        t.label("made.base")
        self._check(base, "made.part", "made.new")
        whole = t.new(f"icmp eq ptr {base}, {values}")
        part = t.new(f"icmp eq ptr {base}, {self._word(values, BASE)}")
        self._seen = first, result
        t.branch(f"or i1 {whole}, {part}", "show.view", "made.new")
        t.label("show.arrays")
        key = t.load(self._taken, 1, "ptr")
        shown = t.new(f"call ptr {known['PyObject_GetItem']}(ptr {t.load(self._taken, 0, 'ptr')}, ptr {key})")
        self._count_read()
        self._check(shown, "show.taken", "leave")
        t.leave_if(f"icmp eq ptr {self._type(shown)}, {known['ndarray']}", "made", "show.number")
        self._return(shown)
        t.label("made.new")
        t.begin_block("made")
        result = t.new(f"phi ptr [ {result}, %made.new ], [ {shown}, %show.taken ]")
        self._return_result(result)

    def _check_out(self) -> None:
        """Emit code that checks whether the last operand can be the output array `out`."""
        t, last = self._t, self._last
        out = t.load("%given", last, "ptr")
        t.enter_if(f"icmp eq i1 {self._has_out}, 1", "out", "taken.free")
        kind, taken = self._type(out), t.load(self._taken, t.new(f"sub i64 {last}, {self._skipped}"), "ptr")
        opened = t.new(f"icmp eq ptr {self._type(taken)}, {self._known['ndarray']}")
        packed = t.new(f"icmp eq ptr {kind}, {self._known['tuple']}")
        t.leave_if(f"and i1 {packed}, {opened}", "call", "out.single")
        t.enter_if(f"icmp eq ptr {kind}, {self._known['Array']}", "out.array", "give.up")
        self._is_free("out", out, taken)
        t.jump("call", "taken.free")

    def _finish(self, result: str) -> None:
        """Emit code that converts a result by calling the Python function `finish`.

        The result is not a new array, but, for example, a tuple or a view of an operand.
        """
        t, known = self._t, self._known
        for k, value in enumerate((result, t.load(self._device, 0, "ptr"))):
            t.do(f"store ptr {value}, ptr {t.at(self._pair, k)}")
        given = t.begin_loop("finish", self._positional)
        thing = t.load("%given", t.new(f"add i64 {given}, {self._skipped}"), "ptr")
        t.do(f"store ptr {thing}, ptr {t.at(self._pair, t.new(f'add i64 {given}, 2'))}")
        t.end_loop("finish")
        count = t.new(f"add i64 {self._positional}, 2")
        finished = self._vectorcall(known["finish"], self._pair, count)
        self._decrement_reference(result)
        self._return(finished)

    def _first(self, name: str, count: int) -> tuple[str, str, str]:
        """Emit the beginning of an index operation: code that loads the indexed array and the key.

        Return the weft array, a NumPy array with the same memory (a new reference), and the key.
        """
        t, known = self._t, self._known
        t.label(name)
        t.enter_if(f"icmp eq i64 %count, {count}", f"{name}.count", "slow")
        first, key = t.load("%given", 0, "ptr"), t.load("%given", 1, "ptr")
        t.enter_if(f"icmp eq ptr {self._type(first)}, {known['Array']}", f"{name}.first", "slow")
        values = self._values(name, first)
        self._hold(0, self._increment_reference(values))
        self._key(name, key, values)
        t.label(f"{name}.basic")
        return first, values, key

    def _show(self) -> None:
        t, known = self._t, self._known
        first, values, key = self._first("show", 2)
        result = t.new(f"call ptr {known['PyObject_GetItem']}(ptr {values}, ptr {key})")
        self._check(result, "show.found", "leave")
        t.leave_if(f"icmp eq ptr {self._type(result)}, {known['ndarray']}", "show.view", "show.element")
        self._count_read()
        self._return(result)
        t.label("show.view")
        first, result = (
            t.new(f"phi ptr [ {shown}, %show.found ], [ {made}, %made.part ]")
            for shown, made in zip((first, result), self._seen, strict=True)
        )
        flags = t.new(f"and i32 {self._word(result, FLAGS, 'i32')}, {WRITABLE}")
        t.leave_if(f"icmp eq i32 {flags}, 0", "show.slow", "show.writable")
        t.branch(f"icmp eq ptr {self._field(first, 'Array._storage')}, null", "adopt", "show.new")
        self._adopt(first, result)
        t.label("show.slow")
        self._return_from("seen", first, result, result)
        t.label("show.new")
        storage = self._field(first, "Array._storage")
        array = t.new(f"call ptr {known['PyType_GenericAlloc']}(ptr {known['Array']}, i64 0)")
        self._check(array, "show.set", "leave")
        self._set(array, "Array._values", result)
        for name, value in (("_storage", storage), ("_device", known["None"])):
            self._set(array, f"Array.{name}", self._increment_reference(value))
        self._return(array)

    def _adopt(self, first: str, result: str) -> None:
        """Emit code that creates a `Storage` object, which adopts a NumPy array's memory. The code then branches to ``show.new``."""
        t, known = self._t, self._known
        t.label("adopt")
        device, values = self._field(first, "Array._device"), self._field(first, "Array._values")
        t.enter_if(f"icmp eq ptr {device}, {known['cpu']}", "adopt.own", "show.slow")
        t.enter_if(f"icmp eq ptr {self._field(first, 'Array._exported')}, null", "adopt.flags", "show.slow")
        flags = self._word(values, FLAGS, "i32")
        t.leave_if(f"icmp eq i32 {t.new(f'and i32 {flags}, {C_ORDER | F_ORDER}')}, 0", "show.slow", "adopt.here")
        storage = t.new(f"call ptr {known['PyType_GenericAlloc']}(ptr {known['Storage']}, i64 0)")
        self._check(storage, "adopt.storage", "leave")
        buffer = t.new(f"call ptr {known['PyType_GenericAlloc']}(ptr {known['Buffer']}, i64 0)")
        self._set(storage, "Storage.buffer", buffer)
        self._check(buffer, "adopt.buffer", "adopt.failed")
        address = t.new(f"call ptr {known['PyLong_FromLongLong']}(i64 {self._word(values, DATA, 'i64')})")
        nbytes, lengths = (
            t.new(f"call ptr {known['PyObject_GetAttr']}(ptr {values}, ptr {known[each]})")
            for each in ("nbytes", "shape")
        )
        # (The storage of an array in Fortran order has the axes in reverse. A missing tuple is an error here, too.)
        in_order = t.new(f"icmp ne i32 {t.new(f'and i32 {flags}, {C_ORDER}')}, 0")
        turn = t.new(f"select i1 {in_order}, ptr {known['forward']}, ptr {known['backward']}")
        shape = t.new(f"call ptr {known['PyObject_GetItem']}(ptr {lengths}, ptr {turn})")
        self._decrement_reference(lengths)
        made = {"Buffer.address": address, "Buffer.nbytes": nbytes, "Storage.shape": shape}
        for name, value in made.items():
            self._set(buffer if name.startswith("Buffer") else storage, name, value)
        for name, value in made.items():
            self._check(value, f"adopt.{name}", "adopt.failed")
        # (A finalizer may have created another storage in the meantime.)
        t.enter_if(f"icmp eq ptr {self._field(first, 'Array._device')}, {device}", "adopt.set", "adopt.failed")
        dtype = self._word(values, DTYPE)
        kept = {
            "device": device,
            "_owner": values,
            "values": values,
            "unwritten": known["None"],
            "origin": known["None"],
        }
        for name, value in kept.items():
            self._set(buffer, f"Buffer.{name}", self._increment_reference(value))
        for name, value in {"device": device, "dtype": dtype, "expr": known["None"], "epoch": known["None"]}.items():
            self._set(storage, f"Storage.{name}", self._increment_reference(value))
        self._set(first, "Array._storage", storage)
        self._set(first, "Array._device", self._increment_reference(known["None"]))
        self._decrement_reference(device)
        t.jump("show.new", "adopt.failed")
        for value in (storage, result):
            self._decrement_reference(value)
        t.do("br label %give.up")

    def _put(self) -> None:
        t, known = self._t, self._known
        first, values, key = self._first("put", 3)
        self._hold(1, self._increment_reference(key))
        t.begin_block("put.arrays")
        given, key = key, t.load(self._taken, 1, "ptr")
        t.do(f"store ptr null, ptr {self._before}")  # (the value need not broadcast with a mask)
        self._is_free("put", first, values)
        number = t.new(f"sext i32 {self._word(self._word(values, DTYPE), NUMBER, 'i32')} to i64")
        t.leave_if(f"icmp ugt i64 {number}, 62", "give.up", "put.known")
        has = [t.new(f"and i64 {t.new(f'lshr i64 {each}, {number}')}, 1") for each in (_ANY, _FLOATING)]
        any_number, real = (t.new(f"icmp ne i64 {each}, 0") for each in has)
        types = t.new(f"select i1 {real}, i64 {_REAL}, i64 {_INTEGERS}")
        types = t.new(f"select i1 {any_number}, i64 {COMMON}, i64 {types}")
        value = self._put_value(any_number, real, types)
        large = t.new(f"icmp sgt i64 {self._size('put.size', values)}, {self._limit}")
        t.enter_if(f"and i1 {large}, {t.new(f'icmp eq ptr {key}, {given}')}", "put.large", "put.small")
        part = self._check(t.new(f"call ptr {known['PyObject_GetItem']}(ptr {values}, ptr {key})"), "put.part", "leave")
        self._hold(3, part)
        t.enter_if(f"icmp eq ptr {self._type(part)}, {known['ndarray']}", "put.part.array", "put.small")
        t.leave_if(f"icmp sgt i64 {self._size('put.covered', part)}, {self._limit}", "give.up", "put.part.set")
        done = t.new(f"call i32 {known['PyObject_SetItem']}(ptr {part}, ptr {known['Ellipsis']}, ptr {value})")
        t.branch(f"icmp eq i32 {done}, 0", "put.done", "leave")
        t.label("put.small")
        done = t.new(f"call i32 {known['PyObject_SetItem']}(ptr {values}, ptr {key}, ptr {value})")
        t.enter_if(f"icmp eq i32 {done}, 0", "put.done", "leave")
        self._return(self._increment_reference(known["None"]))

    def _put_value(self, any_number: str, real: str, types: str) -> str:
        """Emit code that loads an assigned value: an array with a suitable dtype, or a scalar."""
        t, known = self._t, self._known
        thing = t.load("%given", 2, "ptr")
        kind = self._type(thing)
        found = self._values_of_operand("put.value", thing, kind, "put.value.number", types)
        t.jump("put.value", "put.value.number")
        table = t.new(f"select i1 {real}, ptr {known['real']}, ptr {known['whole']}")
        table = t.new(f"select i1 {any_number}, ptr {known['numbers']}, ptr {table}")
        there = t.new(f"call ptr {known['PyDict_GetItemWithError']}(ptr {table}, ptr {kind})")
        t.leave_if(f"icmp eq ptr {there}, null", "give.up", "put.number")
        t.begin_block("put.value")
        value = t.new(f"phi ptr [ {found}, %put.value.small ], [ {thing}, %put.number ]")
        self._hold(2, self._increment_reference(value))
        return value

    def _end(self) -> None:
        t, known = self._t, self._known
        t.label("give.up")
        wrong = t.new(f"call ptr {known['PyErr_Occurred']}()")
        t.enter_if(f"icmp eq ptr {wrong}, null", "slow", "leave")
        self._return(self._vectorcall(known["slow"], "%given", "%count", "%names"))
        t.label("leave")
        k = t.begin_loop("release", t.load(self._count, 0))
        self._decrement_reference(t.load(self._taken, k, "ptr"))
        t.end_loop("release")
        t.do(f"ret ptr {t.load(self._result, 0, 'ptr')}")
