"""Native code that executes operations on small arrays immediately, in the common cases.

In: a Python function, and the NumPy function with the same effect on NumPy arrays. Out: a builtin that calls the NumPy
function if all operands are small and in host memory, and the Python function otherwise. Invariant: both functions give
the same results.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from inspect import CO_VARARGS, CO_VARKEYWORDS, signature, unwrap
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any

import numpy as np

from weft.codegen import OPS, find_op
from weft.dsl.arrays.array import VALUE_READS, Array
from weft.dsl.arrays.methods import AT_ONCE
from weft.dsl.arrays.on_host import WRITERS, WrappedFunction
from weft.dsl.arrays.ufunc import UFUNCS, UFunc, find_ufunc
from weft.dsl.functions.own_names import OWN, OWN_IN, OwnNames
from weft.dsl.immediate.at_call import BASIC, COMMON, Implementation, implementation_of, numpy_implementation
from weft.dsl.immediate.callers import CALLERS
from weft.dsl.immediate.inner_loops import store_numpy_loops
from weft.dsl.immediate.native_elements import put_elements_first
from weft.dsl.immediate.native_immediate_text import NAME, immediate_text
from weft.dsl.immediate.native_loops import DOT, MODES, put_loops_first
from weft.dsl.immediate.native_operands_text import EXACT_TYPES, Alone, Mode
from weft.dsl.immediate.native_tables import FUNCTIONS, SHARED
from weft.dsl.immediate.small_work import (
    BROADCASTING,
    COPYING,
    EXACT,
    GROWING,
    METHODS_OF_FUNCTIONS,
    ORDERED,
    PRODUCT_SIZES,
    WARNING,
    WHOLE,
    most_inputs,
    shifts_of_function,
)
from weft.runtime import (
    FIXED,
    IMMEDIATE,
    Builtin,
    Replacement,
    get_device,
    put_buffer,
    put_call,
    put_operators,
    python_function,
    report_failure,
    slots_of,
)


def make_immediate(
    mode: Mode,
    way: Implementation | None,
    slow: Callable[..., Any],
    table: Mapping[Any, Any] | None = None,
    owner: str = "weft",
) -> Builtin:
    """Return native code that calls NumPy for small arrays in host memory, and otherwise calls the function `slow`.

    Parameters
    ----------
    mode : Mode
    way : Implementation or None
        The implementation of the op, or None if the arguments determine it.
    slow : callable
        The equivalent Python function.
    table : mapping, optional
        The `Implementation` of each ufunc for ``PROTOCOL``, or the types in basic indices for ``SHOW`` and ``PUT``.
    owner : str, optional
        The public module of the function.

    Raises
    ------
    CompileError
        If native code cannot be compiled.
    """
    function, types, loops = way[:3] if way is not None else (None, 0, {})
    shifts = way.shifts if way is not None else 0
    method, most = None, 0
    if (
        callable(function) and mode is not Mode.PRODUCT
    ):  # (`matmul` computes `dot`, since recorded products are bit-identical to those of `matmul`)
        method, most = METHODS_OF_FUNCTIONS.get(function, (None, 0))
    objects = (*SHARED.values(), function, loops, table or {}, slow, method)
    name = getattr(slow, "__name__", "method")
    addresses = [each.buffer_info()[0] for each in (IMMEDIATE, VALUE_READS, CALLERS)]
    if mode is Mode.PRODUCT or name in ORDERED or name in _UFUNC_METHODS:
        addresses[0] += FIXED * IMMEDIATE.itemsize
    exact = EXACT_TYPES[name in WHOLE] if name in EXACT else 0
    numbers = (
        types,
        int(mode),
        exact,
        most,
        shifts,
        int(_alone(mode, way)),
        most_inputs(getattr(function, "__name__", name)),
    )
    words = [*map(python_function, FUNCTIONS), *map(id, objects), *addresses, *numbers]
    return Builtin(
        NAME, immediate_text(), words, (*objects, IMMEDIATE, VALUE_READS, CALLERS), name, builtin_docstring(slow), owner
    )


def _alone(mode: Mode, way: Implementation | None) -> Alone:
    """Return what native code does with arrays above the usual size limit if no fusion is expected: compute, copy or make a view immediately, or nothing."""
    if mode is Mode.VIEW:
        return Alone.VIEW
    if mode is Mode.CAST:
        return Alone.MOVE
    if mode in _COPIES and way is not None and getattr(way.function, "__name__", "") in COPYING:
        return Alone.MOVE
    return Alone.COMPUTE if mode in _SINGLE and (way is None or way.op is not None) else Alone.NOTHING


_LITERALS = (NoneType, bool, int, float, str, tuple)


def builtin_docstring(function: Callable[..., Any]) -> str:
    """Return the docstring of native code that replaces a Python function. The signature is in the first line."""
    name = getattr(function, "__name__", "method")
    return f"{name}{_plain_signature(function)}\n--\n\n{function.__doc__ or ''}"


def _plain_signature(function: Callable[..., Any]) -> str:
    """Return a function's signature in the form that `inspect` parses from a docstring.

    The signature has no annotations. Defaults that have no literal become None.
    """
    function = unwrap(function)
    if type(function) is not FunctionType:
        return str(signature(function))
    code, named, given = function.__code__, function.__kwdefaults__ or {}, function.__defaults__ or ()
    names, positional = code.co_varnames, code.co_argcount
    end = positional + code.co_kwonlyargcount
    defaults = dict(zip(names[positional - len(given) : positional], given, strict=True)) | named
    shown = [
        name if name not in defaults else f"{name}={each if isinstance(each := defaults[name], _LITERALS) else None!r}"
        for name in names[:end]
    ]
    rest, options = bool(code.co_flags & CO_VARARGS), bool(code.co_flags & CO_VARKEYWORDS)
    after = [f"*{names[end]}"] if rest else ["*"] if code.co_kwonlyargcount else []
    parts = [*shown[:positional], *after, *shown[positional:], *([f"**{names[end + rest]}"] if options else [])]
    if code.co_posonlyargcount:
        parts.insert(code.co_posonlyargcount, "/")
    return f"({', '.join(parts)})"


# Functions and methods whose results may be views.
_VIEWS = ("reshape", "ravel", "transpose", "swapaxes", "squeeze", "expand_dims", "flip", "fliplr", "flipud")
_PRODUCTS = ("dot", "matmul", "inner")
# Modes of ops, which NumPy may execute on medium-sized arrays if nothing fuses with them.
_SINGLE = (Mode.CALL, Mode.REFLECTED, Mode.SQUARE, Mode.UFUNC, Mode.PROTOCOL)
_COPIES = (Mode.CALL, Mode.SMALL, Mode.GROWING)  # modes of functions that copy elements
# Methods that write to their array. (The functions of the same names return new arrays.)
_WRITING = ("partition", "put", "sort")
_BY_LOOPS = {"dot": DOT, "matmul": Mode.PRODUCT}
# Functions and methods of one array and axes that return a new array or a scalar.
_PLAIN = ("sum", "prod", "min", "max", "mean", "std", "var", "any", "all", "argmin", "argmax", "cumsum", "copy")
# Builtins that replace methods and public functions, and the functions that they call if the work is not small. The key
# of a public function has the class `OwnNames`.
INSTALLED: dict[tuple[type, str], tuple[Builtin, Callable[..., Any]]] = {}
_installing = threading.Lock()
_failed: list[Exception] = []


replacement = Replacement(f"{__name__}.install_native_code", immediate_text)


def install_native_code() -> None:
    """Install native code for small operations (takes 25 ms).

    If the installation fails, a warning is issued (with ``WEFT_STRICT=1``, an error is raised), and later calls do
    nothing.
    """
    if INSTALLED or _failed or not _installing.acquire(blocking=False):
        return  # (the installation is running in another thread, or its imports have led to this call)
    try:
        _install()
    except Exception as error:  # (memory for the code may be unavailable; the Python code still works)
        _failed.append(error)
        report_failure("native code for small operations", "they stay in Python, which is slower", error)
    finally:
        _installing.release()


def _is_operator(name: str, methods: Mapping[str, Any]) -> bool:
    """Return whether native code can replace the special method `name`, such as ``__add__``.

    Native code can replace indexing, and binary operators whose reflected form is also native.
    """
    if name in ("__getitem__", "__setitem__"):
        return True
    plain = f"__{name[3:]}" if name[2] in "ir" and f"__{name[3:]}" in methods else name
    return f"__r{plain[2:]}" in methods


def _mode_of(name: str) -> Mode | None:
    """Return which kind of native code (`Mode`) replaces the function `name`, or None if the Python code is kept."""
    kinds = (
        (_PRODUCTS, Mode.PRODUCT),
        (_VIEWS, Mode.VIEW),
        (_PLAIN, Mode.CALL),
        (BROADCASTING, Mode.BROADCAST),
        (PRODUCT_SIZES, Mode.GROWING),
        (WRITERS, Mode.WRITE),
        (GROWING | WARNING, None),
    )
    return next((mode for names, mode in kinds if name in names), Mode.SMALL)


def _native_function(own: OwnNames, name: str, slow: Callable[..., Any]) -> Callable[..., Any]:
    """Return native code that calls NumPy's function `name` for small arrays, and otherwise calls the function `slow`.

    Return `slow` itself if the function stays in Python.
    """
    mode = _mode_of(name)
    if mode is None:
        return slow
    way = numpy_implementation(own.numpys(name), shifts_of_function(name))
    builtin = make_immediate(mode, way, slow, owner=own.module)
    if own is OWN:  # (other modules have no native recorders)
        INSTALLED[OwnNames, name] = builtin, slow
    if name in _BY_LOOPS:
        builtin = put_loops_first(builtin, _BY_LOOPS[name])
    return builtin.call


# Ufuncs whose reductions and scans run in native code, and the names of these methods.
_REDUCTIONS = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")
_UFUNC_METHODS = ("accumulate", "reduce")


def _install_reductions() -> None:
    """Install native code for reductions and scans, which are methods of ufuncs."""
    new = {}
    for ufunc in map(find_ufunc, _REDUCTIONS):
        for name in _UFUNC_METHODS:
            slow = getattr(ufunc, name)
            way = Implementation(getattr(ufunc.immediate.function, name), ufunc.immediate.types, {}, None)
            new[slow] = make_immediate(Mode.SMALL, way, slow).call
            setattr(ufunc, name, new[slow])
    scripts = sys.modules.get("weft.dsl.script.script_function")
    if scripts is not None:
        scripts.replace_own(new)


def _replaced() -> Iterator[tuple[Any, ...]]:
    """Yield a description of each operator and method that native code replaces.

    A description contains the class, name, mode and implementation, and in some cases a table.
    """
    for definition in OPS.values():
        name = definition.dunder
        if not name:
            continue
        if name == "pow":  # (the exponent 2 is recognized by identity, since Python has a single object for it)
            yield Array, "__pow__", Mode.SQUARE, implementation_of(find_op("square"))
            continue
        way = implementation_of(definition, getattr(operator, f"__{name}__"))
        if way.op is None:
            continue
        yield Array, f"__{name}__", Mode.CALL, way
        if f"__r{name}__" in vars(Array):
            yield Array, f"__r{name}__", Mode.REFLECTED, way
            written = implementation_of(definition, getattr(operator, f"__i{name}__"))
            yield Array, f"__i{name}__", Mode.IN_PLACE, written._replace(loops={}, op=None, inputs=0)
    basic = dict.fromkeys(BASIC, 1)
    yield Array, "__getitem__", Mode.SHOW, numpy_implementation(operator.getitem), basic
    yield Array, "__setitem__", Mode.PUT, None, basic
    yield Array, "__matmul__", Mode.PRODUCT, numpy_implementation(np.matmul)
    for name in {*AT_ONCE, *_VIEWS} & vars(Array).keys():
        if (mode := _mode_of(name)) is not None:
            yield Array, name, mode, numpy_implementation(getattr(np.ndarray, name), shifts_of_function(name))
    yield Array, "astype", Mode.CAST, numpy_implementation(np.ndarray.astype)
    for name in _WRITING:
        yield Array, name, Mode.WRITE, numpy_implementation(getattr(np.ndarray, name))
    yield WrappedFunction, "__call__", Mode.WRAPPED, numpy_implementation(len)
    yield UFunc, "__call__", Mode.UFUNC, None
    ours = {each.immediate.function: each.immediate for each in UFUNCS.values() if each.immediate.op is not None}
    ours[np.matmul] = Implementation(np.matmul, COMMON, {}, None, 2)  # type: ignore[index]
    yield Array, "__array_ufunc__", Mode.PROTOCOL, None, ours


def _install() -> None:
    made: list[tuple[type, str, Builtin]] = []

    def add(kind: type, name: str, mode: Mode, way: Implementation | None, table: Any = None) -> None:
        if (kind, name) not in INSTALLED:
            # (a Python method, or native code that records)
            slow = getattr(vars(kind)[name], "__func__", vars(kind)[name])
            builtin = make_immediate(mode, way, slow, table)
            INSTALLED[kind, name] = builtin, slow
            if mode in MODES and (way is None or way.table or mode is Mode.PRODUCT):
                builtin = put_loops_first(builtin, mode, way.table if way is not None else 0, table)
            made.append((kind, name, builtin))

    for definition in OPS.values():
        ufunc = getattr(np, definition.ufunc or "", None)
        if type(ufunc) is np.ufunc and ufunc.nin == definition.arity:
            way = implementation_of(definition)
            store_numpy_loops(definition.name, ufunc, way.types, way.shifts)
    for each in _replaced():
        add(*each)
    methods = {name: builtin for kind, name, builtin in made if kind is Array}
    operators = {name: builtin for name, builtin in methods.items() if _is_operator(name, methods)}
    operators |= {
        name: put_elements_first(operators[name]) for name in ("__getitem__", "__setitem__") if name in operators
    }
    for kind, name, builtin in made:
        if name == "__call__":
            put_call(kind, builtin)
        elif kind is not Array or name not in operators:
            setattr(kind, name, builtin.method())
    if operators:
        put_operators(Array, operators, vars(Array)["__delitem__"])
    put_buffer(Array, slots_of(Array), get_device("cpu"), VALUE_READS.buffer_info()[0])
    if isinstance(turned := vars(Array)["T"].fget, FunctionType):
        native = make_immediate(Mode.VIEW, numpy_implementation(np.ndarray.transpose), turned).call
        Array.T = property(native)  # type: ignore[assignment, method-assign]
    _install_reductions()
    for own in OWN_IN.values():
        names = {*_PLAIN, *_PRODUCTS, *_VIEWS} & OWN.keys() if own is OWN else set()
        new = {}
        for name in names.union(own.at_once):
            if isinstance(own[name], (FunctionType, BuiltinFunctionType)):
                new[name] = _native_function(own, name, own[name])
        own.replace(new)
        own.native = _native_function
