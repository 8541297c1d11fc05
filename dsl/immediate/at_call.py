"""Immediate execution (tier 0) of operations on small arrays, by calling NumPy on their memory.

In: a NumPy function and operands. Out: the function's result, as weft arrays, or `MISSED` if an array is too large, not
in host memory, or of a dtype for which NumPy's results differ. Some functions first evaluate small pending arrays.
Invariant: a result is bit-identical to the recorded operation's, except that NumPy adds floats in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, lru_cache, wraps
from importlib import import_module
from itertools import count
from types import EllipsisType, NoneType
from typing import Any, NamedTuple

import numpy as np

from weft import fusion
from weft.codegen import OpDef, find_op, is_supported, resolve_dtypes
from weft.dsl.arrays.array import VALUE_READS, Array, ReadOnly, Scalar, adopt_new, realise
from weft.dsl.arrays.numpy_results import adopt_result
from weft.dsl.functions.products import multiply
from weft.dsl.immediate.host_values import (
    is_free,
    overlaps,
    stays_small,
    values_after_small_run,
    values_of,
    view_of_storage,
    write_back,
)
from weft.dsl.immediate.inner_loops import loops_of, note_loop
from weft.dsl.immediate.small_work import (
    ALONG_AXIS,
    WARNING,
    WHOLE,
    are_joined,
    is_alone,
    is_immediate,
    is_large,
    is_usual,
    limit_of,
    most_inputs,
    most_whole,
    reduce_rows,
    reduce_whole,
    shifted_limit,
    shifts_of,
)
from weft.fusion import ExpandedOp, evaluate, primitive, recording, uses_numpy
from weft.runtime import BETWEEN, FIXED, IMMEDIATE, Device, default_device

MISSED: Any = object()

# Types of operands that are passed to NumPy unchanged.
CODES = "?bBhHiIlLqQfdFD"
NUMBERS = frozenset({bool, int, float, complex, *(np.dtype(code).type for code in CODES)})
PLAIN = NUMBERS | {NoneType, EllipsisType, slice, str, type, *(type(np.dtype(code)) for code in CODES)}


def types_of(codes: Iterable[str]) -> int:
    """Return a bit mask of dtypes, in which bit k stands for NumPy's type number k."""
    return sum(1 << np.dtype(code).num for code in set(codes))


# A dtype of each kind, and the set of all dtypes of the kind.
_KINDS = [(np.dtype(codes[0]), types_of(codes)) for codes in ("?", "bhilq", "BHILQ", "fd", "FD")]
COMMON = types_of(CODES)  # dtypes for which NumPy's functions give the same results as weft's


class Implementation(NamedTuple):
    """The functions and loops that execute an op immediately, without recording it.

    Attributes
    ----------
    function : callable
        NumPy's ufunc or operator. For arrays of `types`, its results are bit-identical to weft's.
    types : int
        A set of dtypes, as a bit mask that `types_of` returns.
    loops : dict of int to ufunc
        Compiled loops for other dtypes, by the type number of the dtype that all arrays have. Filled on first use.
    op : OpDef or None
        The op, or None if it has no such loops.
    inputs : int
        Number of operands, or 0 if unknown.
    table : int
        Address of the op's table of inner loops, or 0 if it has none.
    shifts : int
        The left shift of the limit on elements for each dtype, as packed by `shifts_of`.
    """

    function: Callable[..., Any]
    types: int
    loops: dict[int, Any]
    op: OpDef | None
    inputs: int = 0
    table: int = 0
    shifts: int = 0


@cache
def implementation_of(op: OpDef, operator: Callable[..., Any] | None = None) -> Implementation:
    """Return the `Implementation` that executes `op` immediately."""
    types = 0
    if op.ufunc and op.name != "power":  # (mixed integer and float operands make it an op of floats)
        types = sum(kinds for kind, kinds in _KINDS if uses_numpy(op.name, (kind,) * op.arity)) | _computed_in_floats(
            op
        )
        if op.name == "subtract":  # (NumPy rejects two bools, and casts a bool beside another number)
            types |= _KINDS[0][1]
    function = operator or getattr(np, op.ufunc or "", None)
    table = loops_of(op.name).buffer_info()[0]
    own = op if function is not None else None
    return Implementation(function, types, _loops_of(op.name), own, op.arity, table, shifts_of(op))  # type: ignore[arg-type]


def _computed_in_floats(op: OpDef) -> int:
    """Return the integer dtypes that NumPy casts to floats for an op, as a bit mask. 8-bit integers are excluded."""
    found = ""
    for code in "hHiIlLqQ":  # (8-bit integers become half precision floats, for most ops)
        with suppress(TypeError):
            loop, _ = resolve_dtypes(op, (np.dtype(code),) * op.arity)
            found += code * (loop[0].kind == "f" and uses_numpy(op.name, loop))
    return types_of(found)


@cache
def _loops_of(op: str) -> dict[int, Any]:
    return {}


def numpy_implementation(function: Callable[..., Any], shifts: int = 0) -> Implementation:
    """Return an `Implementation` that calls a NumPy function immediately for all common dtypes.

    The results of the NumPy function must equal weft's.
    """
    return Implementation(function, COMMON, {}, None, shifts=shifts)


def attempt(way: Implementation, operands: Sequence[Any], default: Device | None = None) -> Any:
    """Execute an op immediately, or return `MISSED` if it must be recorded.

    Parameters
    ----------
    way : Implementation
    operands : sequence
    default : Device, optional
        The device of the result if no operand is a weft array, by default the default device.
    """
    device: Device | None = None
    given, shape, alike = [], None, True
    limit = IMMEDIATE[0]
    for value in operands:
        kind = type(value)
        if kind is Array or kind is np.ndarray or kind is ReadOnly or kind is Scalar:
            values = value if kind is np.ndarray else values_after_small_run(value, operands)
            if values is None or not (COMMON >> values.dtype.num) & 1:
                return MISSED
            if values.size > limit:
                if not way.shifts and (way.op is None or not way.types):
                    return MISSED
                limit = limit_of_operands(way, operands)
                if values.size > limit:
                    if not _runs_alone(way, value, values, limit):
                        return MISSED
                    limit = values.size
            alike = alike and bool((way.types >> values.dtype.num) & 1)
            if kind is not np.ndarray:
                own = value._device or value._storage.device
                if device is not None and own is not device:
                    return MISSED
                device = own
            if kind is Scalar:
                given.append(values[()])
                continue
            if shape is not None and shape != values.shape and not stays_small(shape, values.shape, limit):
                return MISSED
            shape = values.shape
            given.append(values)
        elif kind in NUMBERS:
            given.append(value)
        elif (kind is list or kind is tuple) and (stacked := stack_small(value)) is not None:
            return attempt(way, [stacked if each is value else each for each in operands], default)
        else:
            return MISSED
    if device is None and (device := default) is None:
        device = default_device()
        if not device.small_on_host:
            return MISSED
    if shape is None and not limit:
        return MISSED
    if shape is None:  # only scalars
        alike = all((way.types >> np.result_type(value).num) & 1 for value in given)
    VALUE_READS[0] += 1
    note_call()
    if alike:
        return from_numpy_result(way.function(*given), device)
    return MISSED if way.op is None or not device.host_math else _by_loops(way.op, given, device)


def _runs_alone(way: Implementation, value: Any, values: np.ndarray, limit: int) -> bool:
    """Return whether NumPy should execute an op alone, without fusion, on an array of more than `limit` elements."""
    own = default_device() if type(value) is np.ndarray else value.device
    if own.name != "cpu" or not (way.types >> values.dtype.num) & 1:
        return False
    # (if the operands have several dtypes, the elements of the result may be wider)
    width = values.itemsize if limit > IMMEDIATE[0] else max(8, values.itemsize)
    return is_alone(width * values.size)


def limit_of_operands(way: Implementation, operands: Sequence[Any]) -> int:
    """Return the maximum number of elements for immediate execution with these operands.

    The maximum depends on the dtype only if the result has the operands' dtype or consists of bools.
    """
    dtypes = {value.dtype for value in operands if isinstance(value, (Array, np.ndarray, np.generic))}
    numbers = {type(value) for value in operands if not isinstance(value, (Array, np.ndarray, np.generic))}
    if len(dtypes) != 1 or not numbers <= {int, bool, float}:
        return IMMEDIATE[0]
    (dtype,) = dtypes
    promoted = (float in numbers and dtype.kind != "f") or (int in numbers and dtype.kind == "b")
    return IMMEDIATE[0] if promoted else shifted_limit(way.shifts, dtype)


def _by_loops(op: OpDef, given: list[Any], device: Device) -> Any:
    """Apply an op's loop (see `_find_loop`) to NumPy arrays and scalars, or return `MISSED` if there is no loop."""
    try:
        found = _find_loop(op.name, tuple([type(value) if type(value) in _WEAK else value.dtype for value in given]))
    except Exception as error:
        if not fusion.is_optimizer_failure(error):
            raise
        return MISSED  # (if compilation fails, the op is recorded and executed by the fallback)
    if found is None:
        return MISSED
    function, casts = found
    typed = [value if cast is None else cast(value) for value, cast in zip(given, casts, strict=True)]
    return from_numpy_result(function(*typed), device)


@lru_cache(maxsize=1024)
def _find_loop(name: str, kinds: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """Return the function of an op and the cast for each operand, or None for unsupported types."""
    op = find_op(name)
    try:
        loop, dtype = resolve_dtypes(op, kinds)
    except TypeError:
        return None
    if any(not (COMMON >> each.num) & 1 for each in (*loop, dtype)):
        return None
    whole = name == "power" and dtype.kind in "iu"  # (exact; a float operand would make the dtype a float)
    function = np.power if whole else primitive(name, loop, dtype)
    if len(set(loop)) == 1 and not whole and type(function) is np.ufunc and not uses_numpy(name, loop):
        _loops_of(name).setdefault(loop[0].num, function)
        note_loop(name, function, loop[0], shifts_of(op), compiled=True)
        if len(kinds) == 1 and kinds[0] not in _WEAK and np.can_cast(kinds[0], loop[0]):
            _loops_of(name).setdefault(kinds[0].num, function)  # (the ufunc converts integers)
    casts = [
        own.type if kind in _WEAK else None if kind == own else primitive("cast", (kind,), own)
        for kind, own in zip(kinds, loop, strict=True)
    ]
    for row in (function, *casts):
        if isinstance(row, ExpandedOp):
            row.when_compiled = _find_loop.cache_clear
    return function, tuple(casts)


_WEAK = frozenset({bool, int, float, complex})


def call_counter(module: str, enough: int) -> Callable[[], None]:
    """Return a function that counts its calls, and may install native code after `enough` calls."""
    calls = count(1)

    def note_call() -> None:
        if not (number := next(calls)) % BETWEEN and number >= enough:
            import_module(module).replacement.install_if_due(number)

    return note_call


# Number of calls after which native code is loaded from disk, which takes about 25 ms, and the number of reads that count
# as one call. In Python, a call takes 3 to 6 us longer than in native code, and a read takes about 1 us longer.
ENOUGH, READS = 2_000, 4
_reads = count(1)
# Counts a small operation that was executed in Python.
note_call = call_counter("weft.dsl.immediate.native_immediate", ENOUGH)


# Recording a write takes as long as writing ``_WRITTEN * IMMEDIATE[FIXED]`` words of 8 bytes.
_WRITTEN = 4


def attempt_into(target: Any, way: Implementation, operands: Sequence[Any]) -> bool:
    """Execute an op immediately and write to `target`, or return False if it must be recorded."""
    if type(target) is not Array or not IMMEDIATE[0] or recording.held:
        return False
    values = values_after_small_run(target)
    if values is None or not values.flags.writeable:
        return False
    limit = max(IMMEDIATE[0], _WRITTEN * IMMEDIATE[FIXED])
    given = [values_after_small_run(value) if type(value) is Array else value for value in operands]
    arrays = [value for value in given if type(value) is np.ndarray]
    if not arrays or not all(type(value) is np.ndarray or type(value) in NUMBERS for value in given):
        return False
    if any(min(v.size, v.nbytes // 8) > limit or not (COMMON >> v.dtype.num) & 1 for v in (values, *arrays)):
        return False
    if any(type(value) is Array and value.device is not target.device for value in operands) or not is_free(target):
        return False
    function = way.function
    if not all((way.types >> each.dtype.num) & 1 for each in arrays):
        even = len(arrays) == way.inputs and all(each.dtype == values.dtype for each in arrays)
        found = _find_loop(way.op.name, (values.dtype,) * way.inputs) if even and way.op is not None else None
        if found is None or any(found[1]) or not target.device.host_math:
            return False
        function = found[0]
    VALUE_READS[0] += 1
    note_call()
    function(*given, out=values)
    write_back(target, values)
    return True


# Maximum number of elements for which a copy takes less time than creating a storage over the memory of another array.
COPIED = 4096


def from_numpy_result(result: Any, device: Device, given: Sequence[tuple[np.ndarray, Array]] = ()) -> Any:
    """Convert the NumPy arrays in a result to weft arrays, if weft supports their dtypes.

    `given` contains pairs of a NumPy array and its weft array. A view of such a NumPy array becomes a weft view of the
    weft array.
    """
    kind = type(result)
    if kind is np.ndarray:
        if not (COMMON >> result.dtype.num) & 1 and not is_supported(result.dtype):
            return result
        base = result.base
        for values, array in given:
            if result is values:  # (even if another array uses the same memory)
                return array
        if base is not None:
            for values, array in given:
                if base is values or base is values.base:
                    if type(array) is Scalar and result.size == 1:  # (a scalar is immutable: its views are copies)
                        return adopt_new(result.copy(), device) if result.shape else array
                    return seen(array, result)
        if base is None and result.flags.forc:  # (in C or Fortran order)
            return adopt_new(result, device)
        # (a one-dimensional array has no memory order to keep)
        if (result.ndim == 1 or result.flags.c_contiguous) and result.size <= COPIED:
            return adopt_new(result.copy(), device)
        del base  # (`adopt_result` copies memory to which something else refers)
        return adopt_result(result, device)
    if kind is tuple or kind is list:
        return kind([from_numpy_result(each, device, given) for each in result])
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[from_numpy_result(each, device, given) for each in result])
    return result


def finish(result: object, device: Device, *operands: Any) -> Any:
    """Convert a NumPy function's result to weft arrays. If the result is a NumPy view of an operand, return a weft view of this operand."""
    found = []
    for value in operands:
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if type(each) is Array and each._values is not None:
                found.append((each._values, each))
    return from_numpy_result(result, device, found)


def to_host_if_small(value: Any, found: list[tuple[np.ndarray, Array]], left: int) -> Any:
    """Replace the weft arrays in an argument by NumPy arrays, or return `MISSED` if that is not possible.

    Arrays need common dtypes and at most `left` elements, and must be in host memory or pending on the CPU. The latter
    are evaluated, except inside a recorded function. Pairs of a NumPy array and its weft array are appended to `found`.
    """
    kind = type(value)
    if kind in PLAIN:
        return value if kind is not type or _is_common(value) else MISSED
    if kind is Array or kind is Scalar or kind is ReadOnly:
        values = values_of(value)
        if values is None:
            if value.size > left or not (COMMON >> value.dtype.num) & 1:
                return MISSED
            if value._storage.device.name == "cpu":
                if recording.held and value._storage.buffer is None:
                    return MISSED  # (work recorded inside a recorded function stays recorded)
                realise(value._storage)
                values = values_of(value)
        if values is None or values.size > left or not (COMMON >> values.dtype.num) & 1:
            return MISSED
        if found and value.device is not found[0][1].device:
            return MISSED
        if kind is ReadOnly:
            if overlaps(values.shape, values.strides):
                return MISSED  # (NumPy marks such views in another way)
            values = values.view()
            values.flags.writeable = False
        found.append((values, value))
        return values
    if kind is np.ndarray:
        return value if value.size <= left and (COMMON >> value.dtype.num) & 1 else MISSED
    if kind is range:
        return MISSED if len(value) > left else np.arange(value.start, value.stop, value.step) if value else value
    if kind is tuple or kind is list:
        if len(value) > left:
            return MISSED
        kinds = {*map(type, value)}
        if NUMBERS >= kinds:
            return value
        if Scalar in kinds and not recording.held:  # (evaluate them together)
            pending = [each._storage for each in value if type(each) is Scalar]
            evaluate([each for each in pending if each.device.name == "cpu"])
        taken = []
        for each in value:
            taken.append(to_host_if_small(each, found, left))
            if taken[-1] is MISSED:
                return MISSED
        return kind(taken)
    return MISSED


def stack_small(values: Any) -> Array | None:
    """Stack small arrays with NumPy, or return None if this is not possible.

    All arrays must be in host memory, and one must be a weft array.
    """
    found: list[tuple[np.ndarray, Array]] = []
    if any(type(each) is not np.ndarray and (type(each) is not Array or values_of(each) is None) for each in values):
        return None
    given = to_host_if_small(values, found, IMMEDIATE[0])
    if given is MISSED or not found or not are_joined([each.size for each in given], IMMEDIATE[0]):
        return None
    return adopt_new(np.array(given), found[0][1].device)


def _is_common(dtype: Any) -> bool:
    """Return whether weft and NumPy compute the same results for a dtype."""
    try:
        return bool((COMMON >> np.dtype(dtype).num) & 1)
    except TypeError:
        return False


def call_small(function: Callable[..., Any], arguments: Any, options: dict[str, Any], name: str = "") -> Any:
    """Call a NumPy function on small arguments, or return `MISSED`."""
    if name in _BY_BLAS and len(arguments) == 2 and not options and (product := multiply(*arguments)) is not None:
        note_call()
        return product
    if name in ALONG_AXIS and (rows := _reduce_rows(name, arguments, options)) is not None:
        return rows
    if len(arguments) > 1 and len(arguments) > (most := most_inputs(name or function.__name__)):
        if arguments[most] is not None or any(each is True for each in arguments[most:]):
            return MISSED  # (a write to `out`, or to the overwritten input of a median, may have to be recorded)
    limit = limit_of(name, arguments, options)
    if arguments and type(array := arguments[0]) is Array and is_usual(arguments, options):
        values = values_of(array)
        if values is not None and 0 < values.size <= limit and (COMMON >> values.dtype.num) & 1:
            VALUE_READS[0] += 1
            note_call()
            return from_numpy_result(function(values, *arguments[1:], **options), array.device, ((values, array),))
        axes = (*arguments[1:], *options.values())
        whole = values is not None and (not axes or (values.ndim == 1 and axes in ((0,), (-1,))))
        if whole and name in WHOLE and (number := _reduce_whole(name, array, values, limit)) is not None:
            return number
    found: list[tuple[np.ndarray, Array]] = []
    given = to_host_if_small(arguments, found, limit)
    if given is MISSED:
        return MISSED
    named = {}
    for key, value in options.items():
        if key == "out" and type(value) is Array:
            values = values_of(value)
            elsewhere = found and value.device is not found[0][1].device
            if values is None or elsewhere or not is_free(value) or values.size > limit:
                return MISSED
            named[key] = values
            found.append((values, value))
            continue
        taken = named[key] = to_host_if_small(value, found, limit)
        if (
            taken is MISSED
            or (key == "dtype" and value is not None and not _is_common(value))
            or key in _RECORDED_OPTIONS
            or (key == "out" and type(value) is tuple)
        ):
            return MISSED
    if name in WARNING and not all(values.size for values, _ in found):
        return MISSED
    # (in an optimized order, NumPy adds elements of bools and small integers in their own dtypes)
    if name == "einsum" and named.get("optimize") and len({values.dtype for values, _ in found}) > 1:
        return MISSED
    if given and not found and name in WHOLE and isinstance(given[0], (np.generic, int, float, complex)):
        return function(*given, **named)
    if not found or not is_immediate(name, [values.shape for values, _ in found], limit):
        return MISSED
    VALUE_READS[0] += 1
    note_call()
    result = function(*given, **named)
    if "out" in named and type(options["out"]) is Array:
        write_back(options["out"], named["out"])
    if type(result) is np.ndarray and any(result is value for value in (*arguments, *options.values())):
        return result  # (`out` is the caller's NumPy array)
    return from_numpy_result(result, found[0][1].device, found)


def _reduce_whole(name: str, array: Array, values: Any, limit: int) -> Any:
    """Reduce a medium-sized array to one value on the host if possible, otherwise return None."""
    if not limit < values.size <= most_whole(name, values.itemsize) or not array.device.host_math:
        return None
    if not (COMMON >> values.dtype.num) & 1:
        return None
    with np.errstate(all="ignore"):
        number = reduce_whole(name, values)
    VALUE_READS[0] += number is not None
    return number


def _reduce_rows(name: str, arguments: Any, options: dict[str, Any]) -> Array | None:
    """Reduce a medium-sized array along one axis on the host if possible, otherwise return None."""
    array: Any = arguments[0] if 1 <= len(arguments) <= 2 else None
    if type(array) not in (Array, ReadOnly) or array.size <= IMMEDIATE[FIXED]:
        return None
    axis, keepdims = arguments[1] if arguments[1:] else options.get("axis"), options.get("keepdims", False)
    if type(axis) is not int or type(keepdims) is not bool or not array.device.host_math:
        return None
    if name == "norm" and arguments[1:]:  # (the kind of norm)
        return None
    if not options.keys() <= {"axis", "keepdims"} or (arguments[1:] and "axis" in options):
        return None
    values = values_of(array)
    if values is None or values.ndim == 1 or not -values.ndim <= axis < values.ndim:
        return None
    with np.errstate(all="ignore"):
        found = reduce_rows(name, values, axis, keepdims)
    return None if found is None else adopt_new(found, array.device)


_BY_BLAS = frozenset({"dot", "matmul"})
_RECORDED_OPTIONS = frozenset({"descending", "device", "like", "overwrite_input", "subok", "where"})


def at_once(own: Callable[..., Any], numpys: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that calls NumPy's function (`numpys`) for small arguments, and weft's function (`own`) for others."""

    reduces = name in WHOLE

    @wraps(own)
    def called(*arguments: Any, **options: Any) -> Any:
        if IMMEDIATE[0] and not (reduces and is_large(arguments)):
            found = call_small(numpys, arguments, options, name)
            if found is not MISSED:
                return found
        return own(*arguments, **options)

    return called


def show(array: Array, key: Any) -> Any:
    """Return ``array[key]`` for a basic index into an array in host memory, otherwise `MISSED`."""
    values = values_of(array)
    if values is None or not is_basic(key):
        return MISSED
    return seen(array, values[key])


def is_basic(key: Any) -> bool:
    """Return whether an index consists only of integers, slices, None and ellipses."""
    kind = type(key)
    if kind is tuple:
        return all(type(item) in BASIC for item in key)
    return kind in BASIC


BASIC = frozenset({int, slice, NoneType, EllipsisType, np.int64, np.int32, np.intp})


def seen(array: Array, result: object) -> Any:
    """Return the weft view of `array` that corresponds to `result`, a NumPy view of the same memory.

    Results that are not NumPy arrays are returned unchanged.
    """
    if type(result) is not np.ndarray:
        VALUE_READS[0] += 1
        if not next(_reads) % READS:
            note_call()
        return result
    note_call()
    if result.flags.num < 0:  # (a result of `broadcast_arrays`: NumPy warns if the flag is read)
        result.flags.writeable = not overlaps(result.shape, result.strides)
    alone = result.flags.writeable or overlaps(result.shape, result.strides)
    if array._device is not None and array._exported:
        result = view_of_storage(array, result)
    view = object.__new__(Array if alone else ReadOnly)
    view._storage, view._values, view._device = array._storage, result, None
    return view
