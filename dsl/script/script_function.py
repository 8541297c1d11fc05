"""Wrappers that replace NumPy's functions in scripts on weft.

The wrappers call NumPy for small arguments and weft for other arguments.

In: a NumPy function and its counterpart in weft. Out: a `ScriptFunction`. Invariant: for small NumPy arrays, scalars
and short sequences, a `ScriptFunction` calls NumPy's function. It returns a weft array if the result is large, and
otherwise NumPy's result. The `immediate` setting limits the number of elements in immediate execution. Arrays are small
up to the square root of this limit, so that two small arrays broadcast to at most the limit. In computations, NumPy
arrays are small up to the limit itself, because a conversion would cost more than it could save.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from inspect import signature
from math import ceil, prod
from operator import attrgetter
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array
from weft.dsl.arrays.foreign import has_foreign, types_in
from weft.dsl.arrays.on_host import Wrapper
from weft.dsl.immediate.at_call import COMMON, MISSED, call_counter, from_numpy_result, to_host_if_small
from weft.dsl.immediate.host_values import values_of
from weft.dsl.immediate.small_work import JOINING, are_joined, einsum_products, is_few
from weft.dsl.script.kinds import ALIKE, NUMBERS, PLAIN, MemoryEffect, is_computed, take
from weft.runtime import FIXED, IMMEDIATE, try_compiling

_KINDS = {
    MemoryEffect.CREATE: "zeros ones empty full eye identity tri arange linspace logspace geomspace indices hamming hanning bartlett "
    "blackman kaiser fromfunction tile repeat pad resize vander tril_indices triu_indices diag_indices mask_indices "
    "fftfreq rfftfreq",
    MemoryEffect.VIEW: "reshape ravel transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis squeeze expand_dims "
    "broadcast_to broadcast_arrays atleast_1d atleast_2d atleast_3d flip fliplr flipud rot90 diagonal diag real imag split "
    "array_split hsplit vsplit dsplit unstack shape ndim size shares_memory may_share_memory sliding_window_view as_strided "
    "real_if_close require",
    MemoryEffect.WRITE: "copyto put place putmask fill_diagonal put_along_axis at shuffle",
    MemoryEffect.DRAW: "array asarray asanyarray ascontiguousarray asfortranarray copy load loadtxt genfromtxt fromfile fromstring "
    "frombuffer fromiter from_dlpack fromregex",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}
# Functions that return their argument itself if it is already an array.
_SAME = frozenset({"asarray", "asanyarray", "ascontiguousarray", "asfortranarray"})


def _are_small(values: Iterable[Any], most: int = 0) -> bool:
    """Return whether `values` contain no weft array, large NumPy array or long sequence.

    Lists and tuples are searched recursively. An array is small if `is_few` is true for its size, or if it has at most
    `most` elements.
    """
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            if value.size > most and not is_few(value.size):
                return False
        elif kind is list or kind is tuple:
            if not is_few(len(value)) or not is_few(_count(value)) or not _are_small(value, most):
                return False
        elif kind is range:
            if not is_few(len(value)):
                return False
        elif kind is Array:
            return False
    return True


def _count(value: list[Any] | tuple[Any, ...]) -> int:
    """Estimate the number of elements of a nested sequence from its first items."""
    first = value[0] if value else None
    return len(value) * _count(first) if type(first) in (list, tuple) else len(value)  # type: ignore[arg-type]


_SEQUENCES = frozenset({list, tuple})
# Functions that combine a list of arrays into one array.
_STACKED = frozenset({"array", "asanyarray", "asarray"})
# Functions that join a list of arrays. NumPy joins NumPy arrays in less time than weft takes to convert each of them.
_JOINS = _STACKED | JOINING
_ON_HOST = PLAIN | {np.ndarray}


def _has_own(kinds: Iterable[type]) -> bool:
    """Return whether any of the types is a type of weft arrays."""
    return any(issubclass(kind, Array) for kind in kinds)


def _starts_with_array(arguments: tuple[Any, ...]) -> bool:
    """Return whether the first argument is a list or tuple that begins with a weft array."""
    first = arguments[0] if arguments else None
    return type(first) in _SEQUENCES and len(first) > 0 and type(first[0]) is Array  # type: ignore[index,arg-type]


def _values_of_rows(rows: list[Any]) -> list[np.ndarray] | None:
    """Return a list of NumPy views of the weft arrays in `rows`, or None if NumPy should not combine these arrays.

    The arrays must be small and in host memory, and must have the same dtype and device.
    """
    if {*map(type, rows)} != {Array}:
        return None
    values: list[Any] = [*map(values_of, rows)]
    if {*map(type, values)} != {np.ndarray} or len({*map(id, map(_DEVICE, rows))}) > 1:
        return None
    dtypes = {*map(_DTYPE, values)}
    is_common = len(dtypes) == 1 and (COMMON >> dtypes.pop().num) & 1
    return values if is_common and are_joined([*map(_SIZE, values)], IMMEDIATE[FIXED]) else None


_DEVICE, _DTYPE, _SIZE = attrgetter("device"), attrgetter("dtype"), attrgetter("size")


def _stacker(function: Callable[..., Any], decide: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of `function` that immediately combines lists of small arrays or numbers.

    Other calls are passed to `decide`. A result with few elements is a NumPy array.
    """

    def stack(*arguments: Any, **options: Any) -> Any:
        if options or len(arguments) != 1 or not IMMEDIATE[FIXED] or type(arguments[0]) not in _SEQUENCES:
            return decide(*arguments, **options)
        if (kinds := types_in(arguments[0])) <= _ON_HOST:
            _count_call()
            return take(function(arguments[0]))
        if not _has_own(kinds):
            return decide(*arguments)
        if type(arguments[0]) is list and (rows := _values_of_rows(arguments[0])) is not None:
            made = function(rows)
            return made if is_few(made.size) else from_numpy_result(made, arguments[0][0].device)
        found: list[tuple[np.ndarray, Array]] = []
        given = to_host_if_small(arguments[0], found, IMMEDIATE[FIXED])
        if given is MISSED or not are_joined([each.size for each, _ in found], IMMEDIATE[FIXED]):
            return decide(*arguments)
        made = function(given)
        return made if is_few(made.size) else from_numpy_result(made, found[0][1].device)

    return stack


def _made_elements(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> float:
    """Estimate the number of elements that a creation function creates (0 for invalid arguments)."""
    try:
        return _LENGTHS[name](*arguments, **options) if name in _LENGTHS else _by_lengths(arguments, options)
    except (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError):
        return 0  # NumPy raises the error


def _of_shape(shape: Any, *_: Any, **options: Any) -> int:
    return prod(shape) if isinstance(shape, (tuple, list)) else operator.index(shape)


def _of_range(start: Any, stop: Any = None, step: Any = 1, *_: Any, **options: Any) -> int:
    begin, end = (0, start) if stop is None else (start, stop)
    return ceil((end - begin) / (1 if step is None else step))


def _of_space(start: Any, stop: Any, num: Any = 50, *_: Any, **options: Any) -> int:
    return operator.index(num) * max([1 if type(end) in NUMBERS else np.size(end) for end in (start, stop)])


def _of_square(N: Any, M: Any = None, *_: Any, **options: Any) -> int:
    return int(N * (N if M is None else M))


def _by_lengths(arguments: tuple[Any, ...], options: dict[str, Any]) -> float:
    """Estimate the size of the array that a function call creates. The estimate is the product of all integers and array sizes in the arguments."""
    result = 1.0
    for value in (*arguments, *options.values()):
        if type(value) is np.ndarray:
            result *= max(value.size, 1)
        elif type(value) in (list, tuple):
            whole = [v for v in value if type(v) is int]
            result *= max(prod(whole) if len(whole) == len(value) else _count(value), 1)
        elif isinstance(value, (int, np.integer)):
            result *= max(int(value), 1)
    return result


_LENGTHS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("zeros", "ones", "empty", "full"), _of_shape),
    "indices": lambda dimensions, *_, **options: _of_shape(dimensions) * len(dimensions),
    "fromfunction": lambda function, shape, **options: _of_shape(shape) * len(shape),
    "arange": _of_range,
    **dict.fromkeys(("linspace", "logspace", "geomspace"), _of_space),
    **dict.fromkeys(("eye", "tri"), _of_square),
    "identity": lambda n, *_, **options: int(n * n),
}


class ScriptFunction(partial, Wrapper):  # type: ignore[type-arg]
    """A replacement for a function of the `numpy` namespace, such as `numpy.sum`, in scripts that weft runs.

    A `ScriptFunction` is a `functools.partial` of the function that `choose` returns, because calls to a partial are
    fastest. A `ScriptFunction` compares equal to NumPy's function, so that scripts find it in tables with NumPy's
    functions as keys.
    """

    own: Callable[..., Any]
    kind: MemoryEffect

    def __new__(
        cls, wrapped: Callable[..., Any], own: Callable[..., Any], kind: MemoryEffect | None = None
    ) -> ScriptFunction:
        """Create the function that scripts see under a NumPy name. It calls either NumPy's function `wrapped` or weft's function `own`."""
        name = getattr(wrapped, "__name__", "function")
        kind = _KIND_OF.get(name, MemoryEffect.COMPUTE) if kind is None else kind
        made = super().__new__(cls, choose(wrapped, own, kind))
        made.wrapped, made.own, made.kind = wrapped, own, kind
        made.__dict__.update(__name__=name, __doc__=wrapped.__doc__, __module__=getattr(wrapped, "__module__", "numpy"))
        _made.append(made)
        if _native:
            _install_native_function(made)
        return made

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that `isinstance` sees:

        `numpy.ufunc` for ufuncs. Libraries test for it, because they call functions that are not ufuncs once per
        element.
        """
        return np.ufunc if isinstance(self.wrapped, np.ufunc) else type(self)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind the function as a method if NumPy's function would be bound."""
        binds = instance is not None and hasattr(type(self.wrapped), "__get__")
        return types.MethodType(self, instance) if binds else self

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the NumPy function, such as a ufunc's ``reduce`` or ``__signature__``."""
        if name == "__signature__":
            try:
                found: Any = signature(self.wrapped)
            except ValueError as error:  # built-in functions without a signature
                raise AttributeError(name) from error
        else:
            found = getattr(self.wrapped, name)
            if callable(found) and not name.startswith("__"):
                found = ScriptFunction(found, getattr(self.own, name))
        self.__dict__[name] = found
        return found

    def __eq__(self, other: object) -> bool:
        return self is other or self.wrapped == (other.wrapped if isinstance(other, ScriptFunction) else other)

    def __hash__(self) -> int:
        return hash(self.wrapped)

    def __repr__(self) -> str:
        return repr(self.wrapped)

    def __reduce__(self) -> Any:
        return _find, (self.wrapped,)


NDARRAY = frozenset({np.ndarray})
_made: list[ScriptFunction] = []
_native: list[Any] = []
# Functions that install further native code. Their argument is the `native_callers` module.
when_native: list[Callable[[types.ModuleType], None]] = []
# Number of calls after which native code is loaded from disk, which takes 8 ms. A call takes 0.6 to 3 us longer in Python.
ENOUGH = 4_000
# Counts a call in Python.
_count_call = call_counter("weft.dsl.script.native_script", ENOUGH)


def _find(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    return next((made for made in _made if made.wrapped == wrapped), wrapped)


def choose(wrapped: Callable[..., Any], own: Callable[..., Any], kind: MemoryEffect) -> Callable[..., Any]:
    """Return a function that calls either NumPy's function or weft's function (`own`). It decides in each call, by the arguments."""
    computes = is_computed(getattr(wrapped, "__name__", "function"), kind)
    any_length = computes or kind is MemoryEffect.DRAW  # (NumPy takes longer to convert a list than to compute with it)
    decide = _decider(wrapped, own, kind)
    if kind is MemoryEffect.CREATE:
        return _creator(wrapped, decide)

    def call(*arguments: Any, **options: Any) -> Any:
        limit = IMMEDIATE[FIXED]
        if not limit or (options and "device" in options):
            return decide(*arguments, **options)
        for value in (*arguments, *options.values()) if options else arguments:
            given = type(value)
            if given is np.ndarray:
                size = value.size
                if (size if computes else size * size) > limit:
                    return decide(*arguments, **options)
            elif given is list or given is tuple:
                if not _has_few(value, limit, any_length):
                    return decide(*arguments, **options)
            elif given not in PLAIN:
                # (the common case of `decide`)
                alone = given is Array and kind is not MemoryEffect.WRITE
                if alone:
                    _count_call()
                return (own if alone else decide)(*arguments, **options)
        _count_call()
        found = wrapped(*arguments, **options)
        if type(found) is not np.ndarray or found.size * found.size <= limit:
            return found
        if kind is MemoryEffect.VIEW or kind is MemoryEffect.WRITE or type(options.get("out")) is np.ndarray:
            return found
        return found if kind is MemoryEffect.COMPUTE and found.size <= limit else take(found, 1)

    return _stacker(wrapped, call) if getattr(wrapped, "__name__", "") in _STACKED else call


def _has_few(items: list[Any] | tuple[Any, ...], limit: int, any_length: bool) -> bool:
    """Return whether a sequence consists of few items, all of which are numbers or small arrays.

    If `any_length` is true, a sequence of numbers may have any length, and items may be rows of numbers.
    """
    count = len(items)
    if NUMBERS.issuperset(map(type, items)):
        return any_length or count * count <= limit
    if count * count > limit:
        return False
    for item in items:
        kind = type(item)
        if kind is np.ndarray:
            if item.size * item.size > limit:
                return False
        elif not (any_length and (kind is list or kind is tuple) and NUMBERS.issuperset(map(type, item))):
            return False
    return True


def _creator(wrapped: Callable[..., Any], decide: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that lets NumPy create small arrays, and otherwise calls `decide`."""
    name = getattr(wrapped, "__name__", "function")
    alike = name in ALIKE

    def call(*arguments: Any, **options: Any) -> Any:
        lengths = arguments[0] if len(arguments) == 1 and type(arguments[0]) is tuple else arguments
        if not NUMBERS.issuperset(map(type, lengths)):
            return decide(*arguments, **options)
        if options and ("device" in options or not PLAIN.issuperset(map(type, options.values()))):
            return decide(*arguments, **options)
        made, limit = _made_elements(name, arguments, options), IMMEDIATE[FIXED]
        if (made if alike else made * made) > limit:
            return decide(*arguments, **options)
        _count_call()
        return take(wrapped(*arguments, **options))

    return call


def _decider(wrapped: Callable[..., Any], own: Callable[..., Any], kind: MemoryEffect) -> Callable[..., Any]:
    """Return a function that calls either NumPy's function `wrapped` or weft's function `own`, depending on its arguments."""
    name = getattr(wrapped, "__name__", "function")
    inputs = wrapped.nin if isinstance(wrapped, np.ufunc) else None
    computes = is_computed(name, kind)

    def call(*arguments: Any, **options: Any) -> Any:
        _count_call()
        if not IMMEDIATE[FIXED]:
            return own(*arguments, **options)
        if name == "einsum" and not options and NDARRAY.issuperset(map(type, arguments[1:])):
            if einsum_products(arguments) <= IMMEDIATE[FIXED]:
                return wrapped(*arguments)
        given = (*arguments, *options.values())
        kinds = types_in(given)
        plain = "device" not in options and kinds <= PLAIN
        if plain and kind is MemoryEffect.CREATE:
            made = _made_elements(name, arguments, options)
            if is_few(made) or (made <= IMMEDIATE[FIXED] and name in ALIKE):
                return take(wrapped(*arguments, **options))
        # (NumPy takes longer to convert a list than to compute with its elements)
        if plain and (computes or kind is MemoryEffect.DRAW) and not _starts_with_array(arguments):
            return take(wrapped(*arguments, **options))
        target = options.get("out") if kind is not MemoryEffect.WRITE else arguments[0] if arguments else None
        if inputs is not None and len(arguments) > inputs:
            target = arguments[inputs]
        if type(target) is tuple and len(target) == 1:
            target = target[0]
        if _has_own(kinds):
            return (wrapped if kind is MemoryEffect.WRITE and type(target) is np.ndarray else own)(
                *arguments, **options
            )
        if type(target) is np.ndarray or kind is MemoryEffect.VIEW:
            return wrapped(*arguments, **options)
        if name in _SAME and type(arguments[0]) is np.ndarray and arguments[0].size <= IMMEDIATE[FIXED]:
            return wrapped(*arguments, **options)
        joins = name in _JOINS and type(arguments[0]) in _SEQUENCES and kinds <= _ON_HOST and "device" not in options
        if joins or has_foreign(given):
            return take(wrapped(*arguments, **options))
        if kind is MemoryEffect.CREATE and not is_few(made := int(min(_made_elements(name, arguments, options), 1e9))):
            if not (made <= IMMEDIATE[FIXED] and name in ALIKE and _are_small(given)) or "device" in options:
                return own(*arguments, **options)
        most = (
            IMMEDIATE[FIXED] if computes or (name == "einsum" and einsum_products(arguments) <= IMMEDIATE[FIXED]) else 0
        )
        if not _are_small(given, most):
            return own(*arguments, **options)
        found = wrapped(*arguments, **options)
        if kind is MemoryEffect.WRITE or (
            kind is MemoryEffect.COMPUTE and getattr(found, "size", 0) <= IMMEDIATE[FIXED]
        ):
            return found
        return take(found, 1) if type(found) is np.ndarray else found

    return call


def install_native_code() -> None:
    """Replace the Python code of weft's substitutes for NumPy functions by native code."""
    if _native:
        return
    native: Any = import_module("weft.dsl.script.native_script")
    instead = "script functions stay in Python, which is slower"
    if not try_compiling("native code for script functions", instead, native.check):
        return
    _native.append(native)
    for install in when_native:
        install(native.native_callers)
    for made in _made:
        _install_native_function(made)


def replace_own(new: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
    """Replace weft's functions in scripts, according to a mapping from old to new functions."""
    for made in _made:
        if made.own in new:
            made.own = new[made.own]
            _install_native_function(made)


def _install_native_function(made: ScriptFunction) -> None:
    call = choose(made.wrapped, made.own, made.kind)
    if _native:
        call = _native[0].make_native(made.wrapped, made.own, call, made.kind)
    made.__setstate__((call, (), {}, made.__dict__))
