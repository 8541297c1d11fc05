"""Calls of NumPy functions on the host, with conversion of arguments and results.

In: a NumPy function and its arguments, including lists of weft arrays and callbacks that take or return weft arrays.
Out: the function's result, with weft arrays. Invariant: if the function writes to an argument, the writes are copied
back to the weft array. A function gets writable memory of a weft array only if it writes to its first argument and does
not keep this argument.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

import weft.runtime as runtime
from weft.codegen import is_supported
from weft.dsl.arrays.array import (
    Array,
    ReadOnly,
    Scalar,
    UnsupportedDtypeError,
    adopt_new,
    check_writable,
    convert,
    expr_of,
    from_protocol,
    user_location,
    wrap,
    write,
)
from weft.dsl.arrays.call_sites import arrays_in, device_of, on_operands_device
from weft.dsl.arrays.numpy_results import ALONE, adopt_result
from weft.dsl.arrays.random_arrays import drawing, note_draw
from weft.dsl.arrays.shared_arrays import share_buffer
from weft.dsl.immediate.at_call import MISSED, PLAIN, call_small, numpy_implementation
from weft.dsl.immediate.host_values import values_of, writable_values, write_back
from weft.dsl.immediate.small_work import is_few
from weft.fusion import cast, current_epoch, realise, recording
from weft.runtime import IMMEDIATE, LaunchNote, Listening, launch_heard

# Modules whose functions do not write to their arguments.
_READERS = frozenset({"numpy.linalg", "numpy.fft"})
# Functions that write to their first argument.
WRITERS = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "shuffle"})


class Wrapper:
    """Base class for wrappers of NumPy functions and classes."""

    wrapped: Any  # the function or class


def to_host(
    value: object, seen: list[tuple[Array, np.ndarray]] | None = None, taken: Callable[[Any], Any] | None = None
) -> Any:
    """Convert each weft array in `value` to a NumPy array, including arrays in lists and tuples.

    If the list `seen` is given, the NumPy arrays are writable copies, and are appended to the list with their weft
    arrays. Dictionaries are searched, too, and wrapped NumPy objects are unwrapped. A Python function in `value` is
    wrapped: `taken`, by default `from_host`, converts its arguments, and its result is converted to NumPy arrays.
    """
    if isinstance(value, Array):
        host = value.numpy()
        if seen is not None:
            check_writable(value)
            host = np.array(host)
            seen.append((value, host))
            return host
        # (a scalar and a 0-d array are cast by different rules)
        return host[()] if isinstance(value, Scalar) else host
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(to_host(v, seen, taken) for v in value)
    if type(value) is dict:
        return {k: to_host(v, seen, taken) for k, v in value.items()}
    if isinstance(value, Wrapper):
        return value.wrapped
    if isinstance(value, WrappedObject):
        return value._wrapped
    if callable(value) and isinstance(value, types.FunctionType):
        return _host_callback(value, taken or from_host)
    given = from_protocol(value)
    return given.numpy() if given is not value else value


def _host_callback(function: Callable[..., Any], taken: Callable[[Any], Any]) -> Any:
    @wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        given = [taken(a) for a in arguments]
        before = [a._storage.buffer if isinstance(a, Array) else None for a in given]
        found = to_host(function(*given, **{k: taken(v) for k, v in options.items()}))
        for theirs, ours, buffer in zip(arguments, given, before, strict=True):
            if (
                isinstance(ours, Array)
                and buffer is not None
                and ours._storage.buffer is not buffer
                and theirs.flags.writeable
            ):
                np.copyto(theirs, ours.numpy())  # copy back what the function wrote to its argument
        return found

    return called


def _each_array(value: Any, convert_array: Callable[[np.ndarray], Any]) -> Any:
    """Apply `convert_array` to each NumPy array in `value`, including the arrays in lists and tuples.

    Arrays of unsupported dtypes are unchanged.
    """
    if type(value) is np.ndarray:
        return convert_array(value) if is_supported(value.dtype) else value
    if type(value) in (list, tuple):
        return type(value)(_each_array(v, convert_array) for v in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_each_array(v, convert_array) for v in value))
    return value


def from_host_if_large(value: object) -> Any:
    """Convert each large NumPy array in `value` to a weft array, except arrays of unsupported dtypes."""
    return _each_array(value, lambda array: array if is_few(array.size) else convert(array))


def from_host(value: object) -> Any:
    """Convert each NumPy array in `value` to a weft array, except arrays of unsupported dtypes.

    Random generators, polynomials and `vectorize` objects are wrapped, so that they return weft arrays.
    """
    value = _each_array(value, convert)
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return WrappedObject(value)
    if isinstance(value, (np.poly1d, np.vectorize)) or type(value).__module__.startswith("numpy.polynomial."):
        return CallableObject(value)
    if type(value) is list and value and isinstance(value[0], np.random.Generator):
        return [WrappedObject(each) for each in value]
    return value


def keep_byte_order(value: object) -> Any:
    """Convert `value` as `from_host` does, but keep a NumPy array with a non-native byte order."""
    return value if isinstance(value, np.ndarray) and not value.dtype.isnative else from_host(value)


def keep(value: object) -> Any:
    """Return `value` unchanged."""
    return value


# Conversions that leave some NumPy arrays as they are.
_KEEPING = (keep_byte_order, keep)


def adopt_array(made: np.ndarray, taken: Callable[[Any], Any]) -> Any:
    """Convert a new NumPy array to a weft array, without a copy if possible.

    If the current device is the CPU, a large array without gaps is not copied. In most other cases, `taken` converts
    the array. The caller must have the only reference to the array. Arrays that are not in C order keep their order. An
    array over a writable buffer (`frombuffer`, `ctypeslib.as_array`) shares the buffer's memory. A read-only array
    remains read-only.
    """
    device, flags, few = current_epoch().device, made.flags, is_few(made.size)
    if few and taken is not from_host:
        return taken(made)
    if made.base is not None and is_supported(made.dtype) and (shared := share_buffer(made)) is not None:
        return shared
    if not flags.writeable:
        found = taken(made)
        return wrap(found._storage, found._view, ReadOnly) if type(found) is Array else found
    if device.name != "cpu" or not flags.behaved or not made.dtype.isnative or not is_supported(made.dtype):
        return taken(made)
    if few and flags.c_contiguous:
        return taken(made)
    return adopt_new(made, device) if flags.carray and flags.owndata else adopt_result(made, device)


@on_operands_device
def call_numpy(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    taken: Callable[[Any], Any] = from_host,
) -> Any:
    """Call a NumPy function on the host with weft arrays. Convert new results with the function `taken`."""
    if not Listening.listeners and PLAIN.issuperset(map(type, (*arguments, *options.values()))):
        result = function(*arguments, **options)
        alone = type(result) is np.ndarray and sys.getrefcount(result) == ALONE
        return adopt_array(result, taken) if alone and taken not in _KEEPING else taken(result)
    name = getattr(function, "__name__", "")
    public_name = f"{_public_module(function)}.{name}"
    device_of((*arguments, *options.values()), name)
    note_fallback(public_name, *arguments, *options.values())
    position = index_of_out(function)
    most = getattr(function, "nargs", len(arguments))  # (NumPy raises the error if a ufunc has too many arguments)
    if position is not None and position < len(arguments) <= most and "out" not in options:
        arguments, options = arguments[:position], {**_named(function, arguments, position), **options}
    out = options.get("out")
    written: list[tuple[Array, np.ndarray]] = []
    in_place = name in WRITERS or (name == "nan_to_num" and options.get("copy") is False)
    first = arguments[0] if in_place and arguments else None
    memory = _memory_for_write(first) if name in WRITERS and type(first) is Array else None
    host_arguments = list(to_host(arguments if memory is None else (memory, *arguments[1:]), None, taken))
    if type(first) is list:  # (`shuffle` writes to it)
        host_arguments[0] = first
    elif isinstance(first, Array) and memory is None:
        host_arguments[0] = to_host(first, written)
    # (The host arrays are weft's memory, which only weft may write to.)
    options = {k: v for k, v in options.items() if k != "overwrite_input"}
    host_options = {k: to_host(v, written if k == "out" else None, taken) for k, v in options.items()}
    if Listening.listeners:
        result = _call_and_report(
            public_name, partial(function, *host_arguments, **host_options), (*arguments, *options.values())
        )
    else:
        result = function(*host_arguments, **host_options)
    if memory is not None:
        write_back(first, memory)
    for array, host in written:
        write(array, cast(expr_of(convert(host)), array.dtype))
    if out is not None and (isinstance(out, Array) or out is result):
        return out
    if type(out) is tuple and written:
        return _in_place_of(out, result, taken)
    if name == "nan_to_num" and written:
        return written[0][0]
    for value in arguments:
        if type(value) is WrappedObject and value._wrapped is result:  # (`default_rng(generator)`)
            return value
    alone = type(result) is np.ndarray and sys.getrefcount(result) == ALONE
    return adopt_array(result, taken) if alone and taken not in _KEEPING else taken(result)


def _memory_for_write(array: Array) -> np.ndarray | None:
    """Return an array's memory as a writable NumPy array, or None if only a copy is possible."""
    if recording.held:
        return None
    if array._device is None and array._storage.device.name == "cpu":
        realise(array._storage)
    return writable_values(array)


def or_numpy(own: Callable[..., Any], numpys: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls weft's function `own` or, if that does not support the dtypes, NumPy's function."""

    @wraps(own)
    def called(*arguments: Any, **options: Any) -> Any:
        try:
            return own(*arguments, **options)
        except UnsupportedDtypeError:
            return call_numpy(numpys, arguments, options, keep_byte_order)

    return called


def _in_place_of(outs: tuple[Any, ...], result: object, taken: Callable[[Any], Any]) -> Any:
    """Return a ufunc's results. If a result was written to a weft array in `outs`, return this weft array instead.

    The function `taken` converts the other results.
    """
    several = result if isinstance(result, tuple) else (result,)
    found = tuple(o if isinstance(o, Array) else taken(r) for o, r in zip(outs, several, strict=True))
    return found if isinstance(result, tuple) else found[0]


def _public_module(function: Callable[..., Any]) -> str:
    """Return the name of the public NumPy module of a function, such as ``numpy.linalg``."""
    module = getattr(function, "__module__", None) or ""
    return module if module.startswith("numpy.") and "._" not in module else "numpy"


def note_fallback(operation: str, *given: Any) -> None:
    """Report an operation that runs on the host, if any of its operands are only in GPU memory."""
    far = [array for array in arrays_in(given) if runtime.is_gpu(array.device) and values_of(array) is None]
    if far:
        runtime.report_fallback(far[0].device, operation, sum(v.nbytes for v in far), user_location())


# Names of positional parameters, by the function's module and name. A key does not keep the function alive.
_parameter_names: dict[tuple[Any, Any], tuple[str, ...]] = {}


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's positional parameters, or numbered names for the operands of a ufunc."""
    if isinstance(function, np.ufunc):
        return tuple(f"{k}" for k in range(function.nin)) + ("out",)
    key = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    found = _parameter_names.get(key)
    if found is None:
        try:
            given = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # built-in functions without a signature
            given = {}.values()
        found = tuple(p.name for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
        # (methods of ufuncs have no module; their qualified names suffice)
        if None not in key or isinstance(function, (types.BuiltinMethodType, types.MethodWrapperType)):
            _parameter_names[key] = found
    return found


def index_of_out(function: Callable[..., Any]) -> int | None:
    """Return the position of a function's ``out`` parameter, or None if there is none."""
    names = _parameters(function)
    return names.index("out") if "out" in names else None


def _named(function: Callable[..., Any], arguments: tuple[Any, ...], position: int) -> dict[str, Any]:
    """Convert the positional arguments at index `position` and after it to keyword arguments."""
    if isinstance(function, np.ufunc) and function.nout > 1:
        return {"out": (*arguments[position:], *[None] * (function.nargs - len(arguments)))}
    return dict(zip(_parameters(function)[position:], arguments[position:], strict=False))


def _call_and_report(name: str, call: Callable[[], Any], given: tuple[Any, ...]) -> Any:
    """Call a NumPy function on the host, and notify the launch listeners if an argument contains weft arrays."""
    arrays = list(arrays_in(given))
    if not arrays:
        return call()
    results: list[Any] = []
    moved = sum(array.nbytes for array in arrays)
    where = user_location()
    sources = ((*runtime.source_line(where), 1.0),)
    note = LaunchNote(f"{name} on the host", nbytes=moved, location=runtime.show_location(where), sources=sources)
    launch_heard(arrays[0].device, note, lambda: results.append(call()))
    return results[0]


class WrappedFunction(Wrapper):
    """A NumPy function that takes and returns weft arrays."""

    def __init__(self, wrapped: Callable[..., Any], taken: Callable[[Any], Any] | None = None) -> None:
        self.wrapped = wrapped
        self._taken = taken or from_host
        self.__name__ = getattr(wrapped, "__name__", "function")
        self.__doc__ = wrapped.__doc__
        reads = getattr(wrapped, "__module__", None) in _READERS
        self.immediate = numpy_implementation(wrapped) if reads else None  # how to execute it immediately
        owner = getattr(wrapped, "__self__", None)
        self._draws = isinstance(owner, (np.random.Generator, np.random.RandomState))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if IMMEDIATE[0] and self.immediate is not None:
            found = call_small(self.wrapped, arguments, options, self.__name__)
            if found is not MISSED:
                return found
        made = call_numpy(self.wrapped, arguments, options, self._taken)
        if self._draws and isinstance(made, Array) and values_of(made) is None:
            note_draw(made.device, self.__name__, made.nbytes)
        return made

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.wrapped, name)
        return WrappedFunction(found, self._taken) if callable(found) else found

    def __reduce__(self) -> Any:
        return type(self), (self.wrapped, self._taken)

    def __repr__(self) -> str:
        return f"<{self.wrapped!r} on weft arrays>"


class WrappedObject:
    """A NumPy object, such as a random generator, whose methods return weft arrays."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # (so that `isinstance` treats it as the object)
        return type(self._wrapped)

    def __reduce__(self) -> Any:
        return type(self), (self._wrapped,)

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __getattr__(self, name: str) -> Any:
        if name == "_wrapped":  # (while a copy is made)
            raise AttributeError(name)
        found = getattr(self._wrapped, name)
        if not callable(found):
            return from_host(found)
        made: Any = WrappedFunction(found)
        if isinstance(self._wrapped, np.random.Generator) and name in runtime.DRAWN:
            made = drawing(self._wrapped, name, made)
        elif isinstance(self._wrapped, np.random.Generator) and name == "bytes":
            made = partial(runtime.draw_bytes, self._wrapped)
        self.__dict__[name] = made
        return made


class WrappedType(Wrapper):
    """A NumPy class, such as `Generator`, whose objects' methods return weft arrays."""

    def __init__(self, wrapped: type) -> None:
        self.wrapped = wrapped
        self.__name__ = wrapped.__name__

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        made = self.wrapped(*to_host(arguments), **to_host(options))
        return CallableObject(made) if callable(made) else from_host(made)

    def __getattr__(self, name: str) -> Any:
        if name == "wrapped":  # (while a copy is made)
            raise AttributeError(name)
        found = getattr(self.wrapped, name)
        return WrappedFunction(found) if callable(found) else from_host(found)

    def __or__(self, other: object) -> Any:  # (in annotations)
        return self.wrapped | other

    __ror__ = __or__

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self.wrapped)


class CallableObject(WrappedObject):
    # A callable NumPy object, with its operators.

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self._wrapped.__doc__

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return call_numpy(self._wrapped, arguments, options)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_wrapped":
            object.__setattr__(self, name, value)
        else:
            held = getattr(self._wrapped, name, None)
            if isinstance(held, np.ndarray) and held.shape == np.shape(value):
                held[...] = to_host(value)  # (`p.coeffs += 1`)
            else:
                setattr(self._wrapped, name, to_host(value))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._wrapped, dtype)


def _forward(name: str) -> Any:
    def special(self: CallableObject, *others: Any) -> Any:
        return from_host(getattr(self._wrapped, name)(*to_host(others)))

    special.__name__ = name
    return special


for _name in (
    "__add__ __sub__ __mul__ __truediv__ __pow__ __neg__ __pos__ __eq__ __ne__ __getitem__ __setitem__ __len__ __iter__ "
    "__radd__ __rsub__ __rmul__ __rtruediv__ __str__ __repr__ __floordiv__ __mod__ __divmod__"
).split():
    setattr(CallableObject, _name, _forward(_name))
