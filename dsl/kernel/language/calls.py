"""Compilation of calls inside kernels.

In: a frame, the node of the call, and the function and its arguments as values. Out: a value. Functions of Python,
math, cmath and NumPy are found in tables by object, and names of the CUDA model by path. All other Python functions
are inlined, or compiled separately if they are recursive.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from weft.codegen import find_op
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import handlers, names, recursion
from weft.dsl.kernel.language import value_methods as methods
from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame
from weft.dsl.kernel.language.device_function import DeviceFunction, KernelFunction
from weft.dsl.kernel.language.global_values import wrap
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.kernel_errors import KernelError
from weft.dsl.kernel.language.known import compute
from weft.dsl.kernel.language.source import source_of
from weft.dsl.kernel.language.statements import bind_arguments, bind_call, inline
from weft.dsl.kernel.language.types import ScalarType, Type, field_names
from weft.dsl.kernel.language.values import (
    ArrayValue,
    ChildKernel,
    Closure,
    Constant,
    Method,
    ScalarValue,
    TupleValue,
    describe,
    is_number,
)
from weft.dsl.kernel.library import child_launches, functions, intrinsics
from weft.dsl.kernel.library.library_functions import LibraryFunction
from weft.dsl.kernel.library.vector_types import Vector
from weft.runtime import counted


def call_value(
    frame: FunctionFrame, node: ast.AST, function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    """Compile a call inside a kernel, and return its result."""
    call = Invocation(frame, node)
    try:
        match function:
            case Closure():
                return _in_place(call, function, arguments, keywords)
            case Method(owner=owner, name=name):
                return methods.call_method(call, owner, name, arguments, keywords)
            case ChildKernel():
                return child_launches.launch_child(call, function, arguments, keywords)
            case Constant(value=held):
                return _call_object(call, held, arguments, keywords)
    except KernelError as error:
        raise frame.located(error, node) from None
    frame.fail(node, f"{describe(function)} cannot be called")


def _in_place(call: Invocation, function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> Any:
    c = call.c
    # A function that is defined inside another function is compiled separately for each call of the outer function.
    key = (function.source.tree, function.frame.path) if isinstance(function, Closure) else function
    if key in c.stack or any(key == known for known, _ in c.recursive):  # (it calls itself)
        constant = all(isinstance(a, Constant) for a in (*arguments, *keywords.values()))
        if not constant:
            return recursion.call_recursive(call, function, key, arguments, keywords)
    c.stack.append(key)
    try:
        return inline(call.frame, call.node, function, arguments, keywords)
    finally:
        c.stack.pop()


def _call_object(call: Invocation, held: object, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    c = call.c
    if isinstance(held, names.Intrinsic):
        return intrinsics.call_intrinsic(call, held, arguments, keywords)
    if isinstance(held, DeviceFunction) and held.signatures:
        return _with_signature(call, held, arguments, keywords)
    # As in Numba, a kernel without a launch configuration is called like any function.
    if isinstance(held, (DeviceFunction, KernelFunction)):
        return _in_place(call, held.py_func, arguments, keywords)
    if isinstance(held, LibraryFunction):
        return functions.call_library(call, held, arguments)
    handler = handlers.find_function(held) or getattr(held, "compile_call", None)
    if handler is not None:
        name = getattr(held, "__name__", str(held))
        bound = bind_call(c, name, inspect.signature(handler), call, *arguments, **keywords)
        found = handler(*bound.args, **bound.kwargs)
        # (`size`, `shape` and `ndim` return Python ints)
        is_numpys = getattr(held, "__module__", None) == "numpy" and held not in (np.size, np.shape, np.ndim)
        return handlers.as_numpy(found) if is_numpys else found
    if isinstance(held, (UFunc, np.ufunc)):
        return _elementwise(call, held, arguments, keywords)
    if isinstance(held, (Type, np.dtype)) or (isinstance(held, type) and issubclass(held, np.generic)):
        return handlers.convert(call, handlers.dtype_of(c, Constant(held)), arguments)
    if isinstance(held, type):
        return _construct(call, held, arguments, keywords)
    if isinstance(held, FunctionType):
        if (held.__module__ or "").split(".")[0] in ("numpy", "scipy", "math", "random"):
            c.fail(f"{held.__module__}.{held.__name__} runs on the host only: call it outside the kernel")
        return _in_place(call, held, arguments, keywords)
    if isinstance(held, BuiltinFunctionType) or callable(held):
        name = getattr(held, "__qualname__", None) or getattr(held, "__name__", type(held).__name__)
        c.fail(f"{name} cannot be called in a kernel: write a loop, or call it outside the kernel")
    c.fail(f"{describe(Constant(held))} cannot be called")


def _elementwise(call: Invocation, held: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    c = call.c
    name = held.definition.name if isinstance(held, UFunc) else held.__name__
    out = keywords.pop("out", None)
    if keywords:
        c.fail(f"{name}() takes no argument {next(iter(keywords))!r} in a kernel")
    try:
        definition = find_op(name)
    except KeyError:
        c.fail(f"{name} is not part of the kernel language: call it outside the kernel")
    if out is None and len(arguments) == definition.arity + 1:
        out = arguments.pop()
    if len(arguments) != definition.arity:
        c.fail(f"{name}() takes {counted(definition.arity, 'argument')}, but {len(arguments)} were given")
    if out is not None:
        return _elementwise_into(call, definition.name, arguments, out)
    numbers = [isinstance(a, (Constant, ScalarValue)) and isinstance(c.kind(a), type) for a in arguments]
    if isinstance(held, np.ufunc) and all(numbers):  # Python numbers
        arguments = [handlers.as_numpy(a) for a in arguments]
    return functions.elementwise(call, definition.name, *arguments)


def _with_signature(call: Invocation, held: DeviceFunction, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Compile a call to a device function that has declared signatures.

    Numbers are cast to the types of the signature that fits best: exactly, with safe casts, or with other casts.
    """
    c = call.c
    bound = bind_arguments(call.frame, call.node, source_of(held.function), arguments, keywords, {})
    values = [value for _, value in bound]
    for rule in _RULES:
        for signature in held.signatures:
            if all(_fits(c, v, t, rule) for v, t in zip(values, signature.arguments, strict=True)):
                pairs = zip(values, signature.arguments, strict=True)
                cast = [c.cast(v, t.dtype) if isinstance(t, ScalarType) else v for v, t in pairs]
                result = _in_place(call, held.function, cast, {})
                wanted = signature.result
                return c.cast(result, wanted.dtype) if isinstance(wanted, ScalarType) else result
    have = ", ".join(map(str, held.signatures))
    c.fail(f"{held.__name__} is declared as {have}; it takes no ({', '.join(map(describe, values))})")


_RULES: tuple[Callable[[np.dtype, np.dtype], bool], ...] = (
    lambda given, wanted: given == wanted,
    lambda given, wanted: bool(np.can_cast(given, wanted, "safe")),
    lambda given, wanted: given.kind != "c" or wanted.kind == "c",
)


def _fits(c: Compiler, value: object, wanted: Type, rule: Callable[[np.dtype, np.dtype], bool]) -> bool:
    if not isinstance(wanted, ScalarType):
        return not isinstance(value, ScalarValue)
    if not (isinstance(value, ScalarValue) or (isinstance(value, Constant) and is_number(value.value))):
        return False
    return rule(np.dtype(c.kind(value)), wanted.dtype)


def _elementwise_into(call: Invocation, name: str, operands: list[Any], out: Any) -> Any:
    """Compile an elementwise op that writes its results to the array `out`."""
    c = call.c
    if not isinstance(out, ArrayValue):
        c.fail(f"{name}() writes to an array, not to {describe(out)}")

    def write(index: TupleValue, items: list[Any]) -> None:
        arrays.store(c, out, index, functions.elementwise(call, name, *items))

    arrays.for_each_element(c, out, operands, write)
    return out


def _construct(call: Invocation, held: type, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    c = call.c
    if issubclass(held, Vector):
        return functions.make_vector(call, held, arguments)
    if dataclasses.is_dataclass(held) or (issubclass(held, tuple) and hasattr(held, "_fields")):
        return _with_fields(call, held, arguments, keywords)
    if issubclass(held, enum.Enum):
        if len(arguments) == 1 and isinstance(arguments[0], Constant):
            return compute(c, held.__name__, held, arguments[0].value)
        c.fail(f"a member of {held.__name__} is found by a value that is known when compiling")
    if issubclass(held, BaseException):
        c.fail(f"{held.__name__} can be raised, not made into a value")
    c.fail(f"objects of class {held.__name__!r} cannot be made in a kernel: use named tuples or dataclasses")


def _with_fields(call: Invocation, maker: Any, arguments: list[Any], keywords: dict[str, Any]) -> TupleValue:
    """Compile a call to the class of a named tuple or of a dataclass."""
    c = call.c
    methods.check_constructor(c, maker)
    given = bind_call(c, maker.__name__, inspect.signature(maker), *arguments, **keywords).arguments
    if dataclasses.is_dataclass(maker):
        defaults = {f.name: f.default for f in dataclasses.fields(maker) if f.default is not dataclasses.MISSING}
    else:
        defaults = maker._field_defaults
    fields = field_names(maker)
    computed = [name for name in fields if name not in given and name not in defaults]
    computed += [name for name in given if name not in fields]
    if computed:
        c.fail(f"{maker.__name__}() computes {computed[0]!r}, which a kernel cannot do: make the object outside")
    items = (given[name] if name in given else wrap(c, defaults[name], name) for name in fields)
    return TupleValue(tuple(items), maker, fields)
