"""Native recorders: operators in machine code that look up memoized recordings.

In: `Array`'s operators, methods and indexing, and ufuncs, as Python functions with a `records` attribute. Out:
builtins with the same effect. In the common case they look up the memo by its key, then record, write or show. In
other cases they call the Python functions. Invariant: the result does not depend on which of the two ran.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any

from weft.dsl.arrays.array import Array, Scalar
from weft.dsl.arrays.native_operators_text import FUNCTIONS, NAME, SHARED, operator_text
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.immediate.native_immediate import INSTALLED, tell_of_python
from weft.runtime import Builtin, CompileError, Replacement, python_function


def quicken_after(hits: int) -> None:
    """Install the native recorders if that is due after so many memo hits in Python."""
    if _replacement.is_due(hits):
        quicken_all()


def quicken_all() -> None:
    """Replace array and ufunc methods that have a `records` attribute by native code, if it can be compiled."""
    try:
        for kind in (Array, Scalar, UFunc):
            for name, member in list(vars(kind).items()):
                above, function = INSTALLED.get((kind, name), (None, member))
                recorded = getattr(function, "records", None)
                if recorded is None:
                    continue
                op, way, does = recorded
                made = quicken(op, way, does, function)
                if above is None:
                    setattr(kind, name, made.method())
                else:
                    above.exchange(function, made.call)
    except (CompileError, MemoryError) as error:
        tell_of_python(error)


def quicken(op: str | None, way: int, does: int, function: Callable[..., Any]) -> Builtin:
    """Return a builtin that looks up memoized recordings, and calls `function` on a miss.

    Raises CompileError if the builtin cannot be compiled.
    """
    objects = (*SHARED.values(), op, way, does, function)
    plain = [each.replace(annotation=Parameter.empty) for each in signature(function).parameters.values()]
    words = [*map(python_function, FUNCTIONS), *map(id, objects)]
    name = function.__name__
    text = f"{name}{Signature(plain)}\n--\n\n{function.__doc__ or ''}"
    return Builtin(NAME, operator_text(), words, objects, name, text)


_replacement = Replacement(f"{__name__}.quicken_all", operator_text, 3_000)
