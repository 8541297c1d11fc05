"""Native recorders: machine code that records array operations whose expressions are found in a memo.

Python code records all other operations.

In: `Array`'s operators, methods and indexing, and ufuncs, as Python functions with a `records` attribute. Out: builtins
with the same effect. In the common case, a builtin looks up its key in the memo, and then records an operation, records
a write, or returns a view. In other cases, it calls the Python function. Invariant: a builtin and its Python function
give the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from weft.dsl.arrays.array import Array, Scalar
from weft.dsl.arrays.call_sites import RECORD_FUNCTION
from weft.dsl.arrays.native_keys_text import FUNCTIONS, NAME, SHARED
from weft.dsl.arrays.native_operators_text import operator_text
from weft.dsl.arrays.native_protocol import reflect_numbers
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.functions.own_names import OWN, OwnNames
from weft.dsl.immediate.native_immediate import INSTALLED, builtin_docstring
from weft.dsl.immediate.small_work import immediate_bytes
from weft.runtime import IMMEDIATE, Builtin, Replacement, python_function, report_failure, try_compiling

# Text of the warning that the native recorders cannot be created.
FORM, INSTEAD = "native code for recording", "operations are recorded by Python, which is slower"


def install_native_code() -> None:
    """Install machine-code versions of the methods and functions that have a `records` attribute.

    ``__array_ufunc__`` is replaced, too. If the machine code does not compile, the Python versions remain, and a
    warning is issued (with ``WEFT_STRICT=1``, an error).
    """
    try:
        _install_functions()
        _install_methods()
    except Exception as error:  # (memory for the code may be unavailable; the Python code still works)
        report_failure(FORM, INSTEAD, error)


def _install_methods() -> None:
    for kind in (Array, Scalar, UFunc):
        for name, member in list(vars(kind).items()):
            above, function = INSTALLED.get((kind, name), (None, member))
            if name == "__array_ufunc__" and type(function) is FunctionType:
                made = reflect_numbers(function)
            elif (recorded := getattr(function, "records", None)) is not None:
                op, way, does = recorded
                made = make_recorder(op, way, does, function)
            else:
                continue
            if above is None:
                setattr(kind, name, made.method())
            else:
                above.exchange(function, made.call)


def _install_functions() -> None:
    new = {}
    for name in OWN.at_once:
        above, function = INSTALLED.get((OwnNames, name), (None, OWN[name]))
        found = _recorder(function)
        if above is not None:
            above.exchange(function, found)
        elif found is not function:
            new[name] = found
    OWN.replace(new)
    # (The module of a public function may be loaded later.)
    OWN.recorder = lambda function: try_compiling(FORM, INSTEAD, partial(_recorder, function)) or function


def _recorder(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the machine code that records calls of a public function.

    If the function has no `records` attribute, return the function itself.
    """
    if (recorded := getattr(function, "records", None)) is None:
        return function
    op, way, _ = recorded
    return make_recorder(op, way, RECORD_FUNCTION, function).call


def make_recorder(op: str | None, way: int, does: int, function: Callable[..., Any]) -> Builtin:
    """Return machine code that records memoized operations, and calls `function` for all other operations.

    Raises CompileError if the code does not compile.
    """
    objects = (*SHARED.values(), op, way, does, function)
    name = function.__name__
    words = [*map(python_function, FUNCTIONS), *map(id, objects), IMMEDIATE.buffer_info()[0], immediate_bytes(name)]
    return Builtin(NAME, operator_text(), words, objects, name, builtin_docstring(function))


replacement = Replacement(f"{__name__}.install_native_code", operator_text)
