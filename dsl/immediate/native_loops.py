"""Native calls of ufunc inner loops for small arrays, without the overhead of a ufunc call.

In: the builtin of an operator or ufunc. Out: a builtin that runs before the given builtin. The new builtin calls the
op's inner loop if the arrays in host memory have the same dtype and the same shape, and this dtype can hold the
scalars. It also multiplies small matrices. All other calls are passed to the given builtin. Invariant: results are
bit-identical to those of the given builtin. If a loop raises a floating-point flag, the given builtin computes the
operation again, so that NumPy warns.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import Any

import numpy as np

from weft.dsl.arrays.array import VALUE_READS, Array
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.immediate.callers import CALLERS, is_library
from weft.dsl.immediate.inner_loops import (
    BYTES,
    COMPILED,
    ENTRY,
    HEAD,
    LOOP,
    LOOP_DATA,
    MOST,
    OPERAND,
    POWER,
    RESULT,
    RESULT_BYTES,
    SHIFT,
    loops_of,
    note_loop,
)
from weft.dsl.immediate.native_objects_text import C_ORDER, FLAGS, LENGTHS, STRIDES, slot_offsets
from weft.dsl.immediate.native_operands_text import Mode, OperandText
from weft.fusion import Storage
from weft.runtime import (
    DATA,
    FIXED,
    HEADER,
    IMMEDIATE,
    TUPLE_ITEMS,
    Buffer,
    Builtin,
    Text,
    numpy_function,
    python_function,
)

NAME = "weft_loop"
_TABLE = TUPLE_ITEMS + 8 * 5  # offset of an `Implementation`'s table
_ALIGNED = 0x100  # bit of an array's flags
_MANTISSA = (1 << 51) - 1  # bits of a float64 that are 0 in 0.5, 1.0, 2.0 and 3.0
_NEW_ARRAY, _NEW_SCALAR = 94, 60  # positions in the function table of NumPy's C API
_FUNCTIONS = (
    "PyType_GenericAlloc PyDict_GetItemWithError PyUnicode_Compare PyLong_AsLongLongAndOverflow PyEval_GetGlobals "
    "PyObject_Vectorcall Py_IncRef"
).split()
_OBJECTS: dict[str, Any] = {
    **{each.__name__: each for each in (Array, np.ndarray, int, float, is_library)},
    "None": None,
    "True": True,
    "two": 2,
    "double": np.float64,
    "call": "__call__",
    "host_math": "host_math",
}
_OWN = ("new", "scalar", "flags", "clear", "next", "bound", "looks", "limit", "callers", "mode", "loops", "table")
# Floating-point flags about which NumPy warns.
_RAISED = {"x86_64": 1 + 4 + 8 + 16, "AMD64": 1 + 4 + 8 + 16, "aarch64": 15, "arm64": 15}
SCRATCH = 512  # maximum number of words of an in-place result, which is copied to its destination after checks
NARROW = 512  # maximum number of elements of matrices whose rows are not contiguous
DOT = 99  # an additional mode: the dot product of two vectors
MODES = (Mode.CALL, Mode.REFLECTED, Mode.IN_PLACE, Mode.SQUARE, Mode.PRODUCT, Mode.PROTOCOL, Mode.UFUNC)


def put_loops_first(following: Builtin, mode: int, loops: int = 0, table: Any = None) -> Builtin:
    """Return native code that handles calls for small arrays by ufunc loops, and passes all other calls to the builtin
    `following`.

    Return `following` itself if floating-point flags cannot be read on this machine.

    Parameters
    ----------
    following : Builtin
    mode : int
        The builtin's `Mode`, or `DOT`.
    loops : int
        The address of a table of inner loops.
    table : dict, optional
        The `Implementation` of each ufunc, for ``PROTOCOL``.

    Raises
    ------
    CompileError
        If native code cannot be compiled.
    """
    raised, common = _RAISED.get(platform.machine()), _common_words()
    if raised is None or not common:
        return following
    if mode in (Mode.PRODUCT, DOT):
        for code in "fdFD":
            note_loop("matmul", np.matmul, np.dtype(code), 0)
        loops = loops_of("matmul").buffer_info()[0]
    objects = (*_OBJECTS.values(), following, following.table, table, VALUE_READS, IMMEDIATE, CALLERS)
    words = [
        *common,
        following.address,
        id(following.table),
        *(each.buffer_info()[0] for each in (VALUE_READS, IMMEDIATE, CALLERS)),
    ]
    return Builtin(NAME, loop_text(raised), [*words, int(mode), loops, id(table)], objects, *following.named)


@cache
def _common_words() -> tuple[int, ...]:
    """Return the addresses that all compiled builtins need: of Python's and NumPy's functions, and of ``fetestexcept``.

    Return () if the C library lacks the latter.
    """
    try:
        flags = [getattr(ctypes.CDLL(None), each) for each in ("fetestexcept", "feclearexcept")]
    except (OSError, TypeError, AttributeError):
        return ()
    interface = [numpy_function("_ARRAY_API", index) for index in (_NEW_ARRAY, _NEW_SCALAR)]
    addresses = [ctypes.cast(each, ctypes.c_void_p).value or 0 for each in flags]
    return *map(python_function, _FUNCTIONS), *map(id, _OBJECTS.values()), *interface, *addresses


@cache
def loop_text(raised: int) -> str:
    """Return the LLVM IR of the native code that calls inner loops.

    `raised` is the bit mask of the floating-point flags for which NumPy warns.
    """
    return _Loop(raised).text()


class _Loop(OperandText):
    def __init__(self, raised: int) -> None:
        self._at, self._raised = slot_offsets(Array, Storage, Buffer, UFunc), raised
        self._t = t = Text()
        self._known = t.begin_builtin(NAME, (*_FUNCTIONS, *_OBJECTS, *_OWN))
        self._device, self._lead = (t.new("alloca ptr") for _ in range(2))
        self._product, self._in_order, self._overflow, self._lead_number = (t.new("alloca i64") for _ in range(4))
        self._things, self._arrays, self._starts, self._args, self._pair = (
            t.new("alloca ptr, i64 3") for _ in range(5)
        )
        self._numbers, self._steps, self._outer, self._dims = (t.new("alloca i64, i64 9") for _ in range(4))
        self._scratch = t.new(f"alloca i64, i64 {SCRATCH}")
        for word in (self._device, self._lead):
            t.do(f"store ptr null, ptr {word}")
        t.store(str(C_ORDER), self._in_order, 0)
        self._mode = t.new(f"ptrtoint ptr {self._known['mode']} to i64")
        self._limit, self._fixed_limit = (t.load(self._known["limit"], k) for k in (0, FIXED))

    def text(self) -> str:
        t, known = self._t, self._known
        t.enter_if(f"icmp sgt i64 {self._limit}, 0", "some", "give.up")
        t.enter_if("icmp eq ptr %names, null", "begin", "give.up")
        self._find_table()
        self._take_arrays()
        self._take_numbers()
        rows, columns = self._take_steps()
        self._run(rows, columns)
        self._multiply()
        t.label("wrong")
        t.do(f"call i32 {known['clear']}(i32 {self._raised})")
        t.begin_block("give.up")
        result = t.new(f"tail call ptr {known['next']}(ptr {known['bound']}, ptr %given, i64 %count, ptr %names)")
        t.do(f"ret ptr {result}")
        return t.end()

    def _find_table(self) -> None:
        """Emit code that loads two things: the pointers to the operands, and the pointer to the operation's table of inner loops."""
        t, known = self._t, self._known
        own = known["loops"]
        t.do(
            f"switch i64 {self._mode}, label %plain [ i64 {Mode.UFUNC}, label %ufunc i64 {Mode.PROTOCOL}, label %protocol "
            f"i64 {Mode.SQUARE}, label %square ]"
        )
        t.label("ufunc")
        known_way = self._field(t.load("%given", 0, "ptr"), "UFunc.immediate")
        t.branch(f"icmp eq ptr {known_way}, null", "give.up", "way")
        listed = self._of_protocol("give.up")
        t.begin_block("way")
        way = t.new(f"phi ptr [ {known_way}, %ufunc ], [ {listed}, %protocol.way ]")
        first = t.new("phi i64 [ 1, %ufunc ], [ 3, %protocol.way ]")
        address = t.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {self._word(way, _TABLE)})")
        given = t.new(f"inttoptr i64 {address} to ptr")
        t.branch(f"icmp eq i64 {address}, 0", "give.up", "table")
        t.label("square")
        t.enter_if("icmp eq i64 %count, 2", "square.two", "give.up")
        t.branch(f"icmp eq ptr {t.load('%given', 1, 'ptr')}, {known['two']}", "table", "give.up")
        t.label("plain")
        t.begin_block("table")
        self._loops = t.new(f"phi ptr [ {given}, %way ], [ {own}, %square.two ], [ {own}, %plain ]")
        first = t.new(f"phi i64 [ {first}, %way ], [ 0, %square.two ], [ 0, %plain ]")
        end = t.new("phi i64 [ %count, %way ], [ 1, %square.two ], [ %count, %plain ]")
        self._inputs = t.load(self._loops, 0)
        t.enter_if(f"icmp eq i64 {t.new(f'sub i64 {end}, {first}')}, {self._inputs}", "things", "give.up")
        reflected = t.new(f"icmp eq i64 {self._mode}, {Mode.REFLECTED}")
        k = t.begin_loop("thing", self._inputs)
        index = t.new(f"select i1 {reflected}, i64 {t.new(f'sub i64 1, {k}')}, i64 {t.new(f'add i64 {k}, {first}')}")
        t.do(f"store ptr {t.load('%given', index, 'ptr')}, ptr {t.at(self._things, k)}")
        t.end_loop("thing")

    def _take_arrays(self) -> None:
        """Emit code that fills a table of operands. For an array, the entry is the address of its NumPy array. For a scalar, the entry is null.

        The arrays must have the same dtype, and a loop must exist for it. Except in products, they must also have the
        same shape.
        """
        t, known = self._t, self._known
        k = t.begin_loop("operand", self._inputs)
        thing = t.load(self._things, k, "ptr")
        t.leave_if(f"icmp eq ptr {self._type(thing)}, {known['Array']}", "operand.array", "operand.other")
        t.do(f"store ptr null, ptr {t.at(self._arrays, k)}")
        t.jump("operand.end", "operand.array")
        values = self._values("operand", thing)
        t.do(f"store ptr {values}, ptr {t.at(self._arrays, k)}")
        flags = t.new(f"zext i32 {self._word(values, FLAGS, 'i32')} to i64")
        t.store(t.new(f"and i64 {t.load(self._in_order, 0)}, {flags}"), self._in_order, 0)
        t.leave_if(f"icmp eq i64 {t.new(f'and i64 {flags}, {_ALIGNED}')}, 0", "give.up", "operand.aligned")
        number = self._number("operand.native", values)
        before = t.load(self._lead, 0, "ptr")
        t.do(f"store ptr {values}, ptr {self._lead}")
        number_before = t.load(self._lead_number, 0)
        t.store(number, self._lead_number, 0)
        t.leave_if(f"icmp eq ptr {before}, null", "operand.end", "operand.second")
        same = t.new(f"icmp eq i64 {number_before}, {number}")
        products = [t.new(f"icmp eq i64 {self._mode}, {each}") for each in (Mode.PRODUCT, DOT)]
        product = t.new(f"or i1 {products[0]}, {products[1]}")
        alike = t.new(f"icmp eq i32 {self._word(before, LENGTHS - 8, 'i32')}, {self._word(values, LENGTHS - 8, 'i32')}")
        t.enter_if(f"and i1 {same}, {t.new(f'or i1 {alike}, {product}')}", "operand.same", "give.up")
        axes = t.new(f"select i1 {product}, i64 0, i64 {self._axes(values)}")
        lengths = [self._word(each, LENGTHS) for each in (before, values)]
        axis = t.begin_loop("operand.axis", axes)
        one, other = (t.load(each, axis) for each in lengths)
        t.branch(f"icmp eq i64 {one}, {other}", "operand.axis.end", "give.up")
        t.end_loop("operand.axis", reached=True)
        t.do("br label %operand.end")
        t.end_loop("operand", reached=True)
        self._check(t.load(self._lead, 0, "ptr"), "lead", "give.up")
        self._first = t.load(self._lead, 0, "ptr")
        self._kind = t.load(self._lead_number, 0)
        t.enter_if(f"icmp ule i64 {self._kind}, {MOST}", "lead.known", "give.up")
        self._entry = t.at(self._loops, t.new(f"add i64 {HEAD}, {t.new(f'mul i64 {self._kind}, {ENTRY}')}"))
        self._check(t.load(self._entry, OPERAND, "ptr"), "lead.listed", "give.up")
        t.leave_if(f"icmp eq i64 {t.load(self._entry, COMPILED)}, 0", "lead.usable", "lead.compiled")
        device = t.load(self._device, 0, "ptr")
        here = t.new(f"call ptr {known['PyObject_GetAttr']}(ptr {device}, ptr {known['host_math']})")
        self._decrement_reference(here)  # (True and False are immortal)
        t.enter_if(f"icmp eq ptr {here}, {known['True']}", "lead.usable", "give.up")
        t.do(
            f"switch i64 {self._mode}, label %numbers [ i64 {Mode.PRODUCT}, label %product i64 {DOT}, label %product ]"
        )

    def _take_numbers(self) -> None:
        """Emit code that converts scalars to the dtype of the arrays: float64, complex128 or int64."""
        t, known = self._t, self._known
        t.label("numbers")
        is_double, is_complex, is_long = (
            t.new(f"icmp eq i64 {self._kind}, {np.dtype(code).num}") for code in ("f8", "c16", "i8")
        )
        real = t.new(f"or i1 {is_double}, {is_complex}")
        k = t.begin_loop("number", self._inputs)
        t.enter_if(f"icmp eq ptr {t.load(self._arrays, k, 'ptr')}, null", "number.lone", "number.end")
        raises = t.new(f"icmp eq i64 {t.load(self._entry, COMPILED)}, {POWER}")
        thing = t.load(self._things, k, "ptr")
        kind = self._type(thing)
        t.enter_if(f"icmp eq ptr {kind}, {known['int']}", "number.int", "number.other")
        read = f"call i64 {known['PyLong_AsLongLongAndOverflow']}(ptr {thing}, ptr {self._overflow})"
        value, wrong = t.new(read), t.new(f"load i32, ptr {self._overflow}")
        rounded = t.new(f"bitcast double {t.new(f'sitofp i64 {value} to double')} to i64")
        whole = t.new(f"select i1 {real}, i64 {rounded}, i64 {value}")
        fits = t.new(f"and i1 {t.new(f'icmp eq i32 {wrong}, 0')}, {t.new(f'or i1 {real}, {is_long}')}")
        t.branch(f"icmp ugt i1 {fits}, {raises}", "number.set", "give.up")
        t.label("number.other")
        usual = [t.new(f"icmp eq ptr {kind}, {known[each]}") for each in ("float", "double")]
        t.enter_if(f"and i1 {real}, {t.new(f'or i1 {usual[0]}, {usual[1]}')}", "number.real", "give.up")
        bits = self._word(thing, HEADER, "i64")
        # (some powers are square roots or products)
        short = t.new(f"icmp eq i64 {t.new(f'and i64 {bits}, {_MANTISSA}')}, 0")
        t.leave_if(f"and i1 {raises}, {short}", "give.up", "number.usual")
        t.begin_block("number.set")
        found = t.new(f"phi i64 [ {whole}, %number.int ], [ {bits}, %number.usual ]")
        address = t.at(self._numbers, t.new(f"mul i64 {k}, 2"))
        t.store(found, address, 0)
        t.store("0", address, 1)
        t.do("br label %number.end")
        t.end_loop("number", reached=True)

    def _take_steps(self) -> tuple[str, str]:
        """Emit code that loads the addresses and strides of operands. Return the numbers of rows and columns."""
        t = self._t
        size = self._size("size", self._first)
        few = t.new(f"icmp sle i64 {size}, {t.new(f'shl i64 {self._limit}, {t.load(self._entry, SHIFT)}')}")
        t.enter_if(f"and i1 {few}, {t.new(f'icmp sgt i64 {size}, 0')}", "few", "give.up")
        axes, lengths = self._axes(self._first), self._word(self._first, LENGTHS)
        flat = t.new(f"icmp ne i64 {t.load(self._in_order, 0)}, 0")
        t.do(f"switch i64 {axes}, label %deep [ i64 0, label %give.up i64 1, label %vector i64 2, label %matrix ]")
        t.label("deep")
        t.branch(f"icmp eq i1 {flat}, 1", "vector", "give.up")
        t.label("matrix")
        first, second = (t.load(lengths, k) for k in range(2))
        t.leave_if(f"icmp eq i1 {flat}, 1", "vector", "matrix.rows")
        t.jump("shaped", "vector")
        t.begin_block("shaped")
        rows = t.new(f"phi i64 [ 1, %vector ], [ {first}, %matrix.rows ]")
        columns = t.new(f"phi i64 [ {size}, %vector ], [ {second}, %matrix.rows ]")
        last = t.new(f"sub i64 {axes}, 1")
        width = t.load(self._entry, BYTES)
        k = t.begin_loop("step", self._inputs)
        values = t.load(self._arrays, k, "ptr")
        t.enter_if(f"icmp eq ptr {values}, null", "step.number", "step.array")
        number = t.at(self._numbers, t.new(f"mul i64 {k}, 2"))
        t.jump("step.known", "step.array")
        strides, data = self._word(values, STRIDES), self._word(values, DATA)
        step = t.new(f"select i1 {flat}, i64 {width}, i64 {t.load(strides, last)}")
        outer = t.load(strides, 0)
        packed = t.new(f"icmp eq i64 {step}, {width}")
        single = t.new(f"icmp eq i64 {rows}, 1")
        narrow = t.new(f"or i1 {t.new(f'icmp sle i64 {size}, {NARROW}')}, {t.new(f'or i1 {packed}, {single}')}")
        t.enter_if(f"icmp eq i1 {narrow}, 1", "step.order", "give.up")
        # (for strides in another order, NumPy's result is not in C order, but new memory here is)
        own_order = t.new(f"icmp uge i64 {self._size_of_step(outer)}, {self._size_of_step(step)}")
        written = t.new(f"icmp eq i64 {self._mode}, {Mode.IN_PLACE}")
        ordered = t.new(f"or i1 {t.new(f'or i1 {own_order}, {written}')}, {single}")
        t.enter_if(f"icmp eq i1 {ordered}, 1", "step.known", "give.up")
        start = t.new(f"phi ptr [ {number}, %step.number ], [ {data}, %step.order ]")
        own = t.new(f"phi i64 [ 0, %step.number ], [ {step}, %step.order ]")
        further = t.new(f"phi i64 [ 0, %step.number ], [ {outer}, %step.order ]")
        t.do(f"store ptr {start}, ptr {t.at(self._starts, k)}")
        t.store(own, self._steps, k)
        t.store(further, self._outer, k)
        t.end_loop("step")
        return rows, columns

    def _size_of_step(self, step: str) -> str:
        """Emit code that computes the absolute value of a stride."""
        back = self._t.new(f"icmp slt i64 {step}, 0")
        return self._t.new(f"select i1 {back}, i64 {self._t.new(f'sub i64 0, {step}')}, i64 {step}")

    def _run(self, rows: str, columns: str) -> None:
        """Emit code that calls the ufunc's inner loop for each row. The emitted code then returns the result to the caller of the builtin."""
        t = self._t
        t.enter_if(f"icmp eq i64 {self._mode}, {Mode.IN_PLACE}", "in.place", "result")
        target, result_dtype = t.load(self._arrays, 0, "ptr"), t.load(self._entry, RESULT, "ptr")
        self._check(target, "in.place.array", "give.up")
        words = t.new(f"icmp eq i64 {t.load(self._entry, RESULT_BYTES)}, 8")
        same = t.new(f"icmp eq ptr {result_dtype}, {t.load(self._entry, OPERAND, 'ptr')}")
        fits = t.new(f"and i1 {t.new(f'icmp eq i64 {rows}, 1')}, {t.new(f'icmp sle i64 {columns}, {SCRATCH}')}")
        t.enter_if(f"and i1 {fits}, {t.new(f'and i1 {words}, {same}')}", "in.place.fits", "give.up")
        self._is_free("in.place", t.load(self._things, 0, "ptr"), target)
        t.jump("run", "result")
        result = self._new_values("result", self._axes(self._first), self._word(self._first, LENGTHS))
        data = self._word(result, DATA)
        t.begin_block("run")
        result = t.new(f"phi ptr [ null, %in.place.free ], [ {result}, %result.made ]")
        data = t.new(f"phi ptr [ {self._scratch}, %in.place.free ], [ {data}, %result.made ]")
        width = t.load(self._entry, RESULT_BYTES)
        t.store(width, self._steps, self._inputs)
        t.store(t.new(f"mul i64 {width}, {columns}"), self._outer, self._inputs)
        t.do(f"store ptr {data}, ptr {t.at(self._starts, self._inputs)}")
        t.store(columns, self._dims, 0)
        row = t.begin_loop("row", rows)
        k = t.begin_loop("arg", t.new(f"add i64 {self._inputs}, 1"))
        offset = t.new(f"mul i64 {row}, {t.load(self._outer, k)}")
        there = t.new(f"getelementptr i8, ptr {t.load(self._starts, k, 'ptr')}, i64 {offset}")
        t.do(f"store ptr {there}, ptr {t.at(self._args, k)}")
        t.end_loop("arg")
        self._call_loop()
        t.end_loop("row")
        self._check_flags("run.right", result)
        t.enter_if(f"icmp eq ptr {result}, null", "written", "made")
        step, target = t.load(self._steps, 0), t.load(self._starts, 0, "ptr")
        k = t.begin_loop("copy", columns)
        value = t.load(self._scratch, k)
        address = t.new(f"getelementptr i8, ptr {target}, i64 {t.new(f'mul i64 {k}, {step}')}")
        t.do(f"store i64 {value}, ptr {address}")
        t.end_loop("copy")
        itself = t.load(self._things, 0, "ptr")
        self._increment_reference(itself)
        self._count_read()
        t.do(f"ret ptr {itself}")
        t.label("made")
        self._return_array(result)

    def _new_values(self, name: str, axes: str, lengths: str) -> str:
        """Emit code that creates a NumPy array of the result's dtype."""
        t, known = self._t, self._known
        dtype = self._increment_reference(t.load(self._entry, RESULT, "ptr"))  # (NumPy steals the reference)
        count = t.new(f"trunc i64 {axes} to i32")
        given = f"ptr {known['ndarray']}, ptr {dtype}, i32 {count}, ptr {lengths}, ptr null, ptr null, i32 0, ptr null"
        made = t.new(f"call ptr {known['new']}({given})")
        t.enter_if(f"icmp eq ptr {made}, null", "failed" if name == "result" else "failed.product", f"{name}.made")
        t.do("ret ptr null")
        t.label(f"{name}.made")
        return made

    def _call_loop(self) -> None:
        t = self._t
        loop, data = (t.load(self._entry, k, "ptr") for k in (LOOP, LOOP_DATA))
        t.do(f"call void {loop}(ptr {self._args}, ptr {self._dims}, ptr {self._steps}, ptr {data})")

    def _check_flags(self, name: str, result: str) -> None:
        """Emit code that discards the result if a floating-point flag is set."""
        t, known = self._t, self._known
        raised = t.new(f"call i32 {known['flags']}(i32 {self._raised})")
        t.leave_if(f"icmp eq i32 {raised}, 0", name, f"{name}.not")
        self._check(result, f"{name}.drop", "wrong")
        self._decrement_reference(result)
        t.jump("wrong", name)

    def _return_array(self, result: str) -> None:
        """Emit code that returns the result as a weft array, or as a NumPy array if the caller expects a NumPy array.

        See `_branch_on_caller`.
        """
        t, known = self._t, self._known
        self._count_read()
        name = f"array.{result[1:]}"
        self._branch_on_caller(f"{name}.caller", f"{name}.library", f"{name}.program", f"{name}.none", result)
        t.label(f"{name}.library")
        t.do(f"ret ptr {result}")
        t.label(f"{name}.program")
        array = t.new(f"call ptr {known['PyType_GenericAlloc']}(ptr {known['Array']}, i64 0)")
        t.enter_if(f"icmp eq ptr {array}, null", f"{name}.none", f"{name}.set")
        self._decrement_reference(result)
        t.do("ret ptr null")
        t.label(f"{name}.set")
        self._fill(array, result)
        t.do(f"ret ptr {array}")

    def _multiply(self) -> None:
        """Emit code that multiplies two vectors or matrices. The product becomes the return value of the builtin."""
        t = self._t
        t.label("product")
        arrays = [t.load(self._arrays, k, "ptr") for k in range(2)]
        self._check(arrays[0], "product.left", "give.up")
        self._check(arrays[1], "product.right", "give.up")
        axes = [self._axes(each) for each in arrays]
        lengths, strides = ([self._word(each, at) for each in arrays] for at in (LENGTHS, STRIDES))
        few = [t.new(f"icmp ult i64 {t.new(f'sub i64 {each}, 1')}, 2") for each in axes]
        t.enter_if(f"and i1 {few[0]}, {few[1]}", "product.few", "give.up")
        wide = [t.new(f"icmp eq i64 {each}, 2") for each in axes]
        last = t.new(f"sub i64 {axes[0]}, 1")
        second = t.new(f"sub i64 {axes[1]}, 1")
        n, rows, columns = t.load(lengths[0], last), t.load(lengths[0], 0), t.load(lengths[1], second)
        rows = t.new(f"select i1 {wide[0]}, i64 {rows}, i64 1")
        columns = t.new(f"select i1 {wide[1]}, i64 {columns}, i64 1")
        work = t.new(f"mul i64 {n}, {t.new(f'mul i64 {rows}, {columns}')}")
        little = t.new(f"icmp ult i64 {t.new(f'sub i64 {work}, 1')}, {self._fixed_limit}")
        fits = t.new(f"icmp eq i64 {n}, {t.load(lengths[1], 0)}")
        t.enter_if(f"and i1 {little}, {fits}", "product.fits", "give.up")
        width = t.load(self._entry, BYTES)
        steps = [
            t.new(f"select i1 {wide[0]}, i64 {t.load(strides[0], 0)}, i64 0"),
            t.load(strides[0], last),
            t.load(strides[1], 0),
            t.new(f"select i1 {wide[1]}, i64 {t.load(strides[1], second)}, i64 0"),
            t.new(f"select i1 {wide[0]}, i64 {t.new(f'mul i64 {width}, {columns}')}, i64 0"),
            t.new(f"select i1 {wide[1]}, i64 {width}, i64 0"),
        ]
        for k, step in enumerate(("0", "0", "0", *steps)):
            t.store(step, self._steps, k)
        for k, length in enumerate(("1", rows, n, columns)):
            t.store(length, self._dims, k)
        for k, values in enumerate(arrays):
            t.do(f"store ptr {self._word(values, DATA)}, ptr {t.at(self._args, k)}")
        t.store(t.new(f"select i1 {wide[0]}, i64 {rows}, i64 {columns}"), self._outer, 0)
        t.store(columns, self._outer, 1)
        vectors = t.new(f"icmp eq i64 {t.new(f'add i64 {last}, {second}')}, 0")
        t.branch(f"icmp eq i1 {vectors}, 1", "inner", "product.array")
        self._inner_product(n, steps[1], steps[2])
        t.label("product.array")
        t.leave_if(f"icmp eq i64 {self._mode}, {DOT}", "give.up", "product.new")
        made = self._new_values("product", t.new(f"add i64 {last}, {second}"), self._outer)
        t.do(f"store ptr {self._word(made, DATA)}, ptr {t.at(self._args, 2)}")
        self._call_loop()
        self._check_flags("product.done", made)
        self._return_array(made)

    def _inner_product(self, n: str, left: str, right: str) -> None:
        """Emit code that returns the inner product of two vectors of `n` elements as a scalar."""
        t, known = self._t, self._known
        t.label("inner")
        # (NumPy's dot copies an array with a negative or zero stride)
        on = [t.new(f"icmp sgt i64 {each}, 0") for each in (left, right, t.new(f"sub i64 {n}, 1"))]
        usual = t.new(f"and i1 {on[0]}, {t.new(f'and i1 {on[1]}, {on[2]}')}")
        t.enter_if(f"or i1 {usual}, {t.new(f'icmp eq i64 {self._mode}, {Mode.PRODUCT}')}", "inner.usual", "give.up")
        t.do(f"store ptr {self._numbers}, ptr {t.at(self._args, 2)}")
        self._call_loop()
        self._check_flags("inner.right", "null")
        self._count_read()
        dtype = t.load(self._entry, RESULT, "ptr")
        number = t.new(f"call ptr {known['scalar']}(ptr {self._numbers}, ptr {dtype}, ptr null)")
        t.do(f"ret ptr {number}")
