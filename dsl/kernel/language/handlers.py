"""Registry of the Python functions that kernels can call, and helpers for compiling these calls.

A handler is a function that compiles the calls to a Python function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from weft.codegen import Value, is_supported
from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import extents
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.date_values import signed_duration
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.kernel_errors import LaunchError
from weft.dsl.kernel.language.types import as_type
from weft.dsl.kernel.language.value_operators import componentwise, is_vector
from weft.dsl.kernel.language.values import BOOL, ArrayValue, Constant, ScalarValue, TupleValue, describe
from weft.dsl.kernel.python_mode.argument_conversion import convert as cast

MAX_STATIC_SHARED = 48 * 1024  # bytes of shared memory that a block has on every GPU without a special request
MAX_LOCAL = 512 * 1024  # bytes of local memory that a thread has on every GPU
Handler = Callable[..., Any]
TABLE: dict[Any, Handler] = {}


def handles(*objects: Any) -> Callable[[Handler], Handler]:
    """Return a decorator that registers a function as the handler for calls to given Python functions."""

    def register(handler: Handler) -> Handler:
        for item in objects:
            TABLE[item] = handler
        return handler

    return register


def find_function(held: object) -> Handler | None:
    """Return the handler for calls to a Python object, or None if there is no handler."""
    try:
        return TABLE.get(held)
    except TypeError:
        return None


def dtype_of(c: Compiler, value: object) -> np.dtype:
    """Return the dtype that a value such as ``np.float32`` denotes, or raise KernelTypeError."""
    held = value.value if isinstance(value, Constant) else value
    if held in (int, float, complex, bool):
        return np.dtype(held)
    try:
        dtype = held if isinstance(held, np.dtype) else getattr(as_type(held), "dtype", None)
    except TypeError:
        dtype = None
    if not isinstance(dtype, np.dtype):
        c.fail(
            f"{describe(value) if not isinstance(value, np.dtype) else value} is no dtype: write one such as np.float32"
        )
    if not is_supported(dtype) and dtype.names is None and dtype.subdtype is None:
        c.fail(
            f"{dtype} is not part of the kernel language: use bool, integers, float16 to float64, bfloat16 or complex numbers"
        )
    return dtype


def convert(call: Invocation, dtype: np.dtype, arguments: list[Any]) -> Any:
    """Compile a call to a number type, such as ``np.float32(x)``."""
    if len(arguments) > 1:
        call.c.fail(f"{dtype} takes one number, not {len(arguments)}")
    value = arguments[0] if arguments else Constant(0)
    if isinstance(value, ArrayValue) and value.ndim == 0:
        value = arrays.element(call.c, value)
    value = call.c.number(value)
    if isinstance(value, Constant) and isinstance(value.value, int) and dtype.kind in "iu":
        return Constant(cast(value.value, dtype))  # a cast wraps around, even for a Python int
    return call.c.cast(value, dtype)


def elementwise(call: Invocation, op: str, *operands: Any) -> Any:
    """Compile an op on scalars, vectors or durations. An op on vectors is applied to each of their components."""
    c = call.c
    operands = tuple(arrays.element(c, o) if isinstance(o, ArrayValue) and o.ndim == 0 else o for o in operands)
    if len(operands) == 1 and (duration := signed_duration(c, op, operands[0])) is not None:
        return duration
    if any(isinstance(o, ArrayValue) for o in operands):
        c.fail(f"{op} of a whole array is not part of the kernel language: loop over its elements, or compute outside")
    if any(map(is_vector, operands)):
        return componentwise(c, op, *operands)
    return c.apply(op, *operands)


def as_numpy(value: Any) -> Any:
    """Return a Python number, or the Python numbers in a tuple, as NumPy scalars.

    Bools and all other values are returned unchanged.
    """
    match value:
        case Constant(value=held) if type(held) in (int, float, complex):
            return Constant(np.asarray(held)[()])  # (an int that does not fit in 64 bits remains a Python int)
        case ScalarValue(weak=True) if value.dtype != BOOL:
            return replace(value, weak=False)
        case TupleValue(items=items, maker=None):
            return TupleValue(tuple(map(as_numpy, items)))
    return value


def truth_value(c: Compiler, value: object) -> Value:
    """Return the truth of a value as a run-time bool."""
    truth = c.truth(value)
    return c.builder.constant(truth, BOOL) if isinstance(truth, bool) else truth


def local_array(c: Compiler, shape: Any, dtype: Any, what: str) -> ArrayValue:
    """Allocate an array in a thread's local memory."""
    known = arrays.known_shape(shape)
    if known is None:
        c.fail(f"the shape of {what} has to be known when the kernel is compiled: a constant, or an argument's default")
    if any(n < 0 for n in known):
        c.fail(f"the shape of {what} cannot be negative: {known}")
    kind = dtype_of(c, dtype)
    return reserve_array(c, "local", known, kind, what)


def reserve_array(c: Compiler, space: str, shape: tuple[int, ...], dtype: np.dtype, what: str) -> ArrayValue:
    """Allocate an array in local or shared memory. Raises LaunchError if such arrays exceed the limit in total."""
    count = max(math.prod(shape), 1)
    total = c.reserved[space] = c.reserved[space] + count * dtype.itemsize
    if space == "shared" and total > MAX_STATIC_SHARED:
        raise LaunchError(
            f"the kernel's shared arrays have {total} bytes; a block has {MAX_STATIC_SHARED}: for more use dynamic shared "
            "memory, cuda.shared.array(0, dtype), and give its bytes in the launch's brackets"
        )
    if space == "local" and total > MAX_LOCAL:
        raise LaunchError(
            f"the kernel's local arrays have {total} bytes; a thread has {MAX_LOCAL}: use an array argument"
        )
    with c.at_top():
        if dtype.names is not None:
            unit = max(dtype.alignment, 1)
            raw = np.dtype(f"u{unit}") if unit in (1, 2, 4, 8) else np.dtype(np.uint64)
            words = -(-count * dtype.itemsize // raw.itemsize)
            pointer = getattr(c.builder, space)(raw, words)
            pointer = c.builder.reinterpret(pointer, np.uint8) if raw.itemsize > 1 else pointer
        else:
            own = c.arena_part(dtype, count) if space == "local" else None
            pointer = getattr(c.builder, space)(dtype, count) if own is None else own
    return ArrayValue(pointer, dtype, shape, extents.contiguous(c, shape, arrays.unit(dtype)), space, True, what, True)
