"""NumPy's functions of whole arrays in kernels, such as `median` and `sort`.

In: arrays in any memory. Out: numbers, or arrays in local memory, whose shape must be known at compile time. Each
thread computes its own result. Most functions are written in the kernel language; sorts and scans write to a local
array that they receive. Sorting puts NaN last, and `argsort` is stable.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import value_methods as methods
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.handlers import TABLE, dtype_of, handles, local_array
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.known import compute
from weft.dsl.kernel.language.values import ArrayValue, Constant, ScalarValue, TupleValue, describe, number_kind

_WIDE = {"b": np.int64, "i": np.int64, "u": np.uint64}  # dtypes of sums of integers


def _array(call: Invocation, value: object, name: str) -> ArrayValue:
    if not isinstance(value, ArrayValue):
        call.c.fail(f"{name} takes an array, not {describe(value)}")
    return value


def _call(call: Invocation, function: Callable[..., Any], *arguments: Any) -> Any:
    """Compile a call to a function written in the kernel language."""
    return call.c.call(call.frame, call.node, Constant(function), list(arguments), {})


def _flat(call: Invocation, value: object, name: str) -> ArrayValue:
    return arrays.flatten(call.c, _array(call, value, name))


def new_array(c: Compiler, like: ArrayValue, dtype: Any, name: str) -> ArrayValue:
    """Allocate a local array with the compile-time shape of `like`."""
    if not all(isinstance(extent, int) for extent in like.shape):
        c.fail(
            f"{name} needs memory for its result: the shape of its argument has to be known when the kernel is compiled"
        )
    return local_array(c, TupleValue(tuple(map(Constant, like.shape))), dtype, f"the result of {name}")


# -- statistics ----------------------------------------------------------------------------------


def _variance(x: Any, correction: float) -> Any:
    mean = x.sum() / x.size
    total = mean * 0
    for k in range(x.size):
        total += (x[k] - mean) * (x[k] - mean)
    return total / max(x.size - correction, 0)


def _deviation(x: Any, correction: float) -> Any:
    return np.sqrt(_variance(x, correction))


def _counting(counts: Callable[[Any], Any]) -> Callable[..., Any]:
    def count_elements(x: Any) -> Any:
        count = 0
        for k in range(x.size):
            if counts(x[k]):
                count += 1
        return count

    return count_elements


_count_nonzero = _counting(lambda item: item != 0)
_numbers = _counting(lambda item: item == item)


def _extent(x: Any) -> Any:
    return x.max() - x.min()


def _over_numbers(start: Callable[[Any], Any], step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a function that reduces an array, and skips elements that are NaN."""

    def reduced(x: Any) -> Any:
        total = start(x[:0])  # in the dtype of the result
        for k in range(x.size):
            if x[k] == x[k]:
                total = step(total, x[k])
        return total

    return reduced


nan_sum = _over_numbers(np.sum, operator.add)


def _nan_mean(x: Any) -> Any:
    return nan_sum(x) / _numbers(x)


def _nan_variance(x: Any, correction: float) -> Any:
    mean = _nan_mean(x)
    total = mean * 0
    for k in range(x.size):
        if x[k] == x[k]:
            total += (x[k] - mean) * (x[k] - mean)
    count = _numbers(x)
    return total / (count - correction) if count > correction else mean * np.nan


def _nan_deviation(x: Any, correction: float) -> Any:
    return np.sqrt(_nan_variance(x, correction))


def _nan_extreme(better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def extreme(x: Any) -> Any:
        best = x[0]
        for k in range(x.size):
            if better(x[k], best) or best != best:
                best = x[k]
        return best

    return extreme


def _middle(x: Any, count: int) -> Any:
    upper = x[count // 2] / 1
    return upper if count % 2 else (x[count // 2 - 1] / 1 + upper) / 2


def _median(x: Any, work: Any) -> Any:
    _sorted_into(x, work)
    last = work[x.size - 1]
    return last / 1 if last != last else _middle(work, x.size)


def _nan_median(x: Any, work: Any) -> Any:
    _sorted_into(x, work)
    count = _numbers(x)
    return _middle(work, count) if count else work[0] / 1


def _statistic(function: Callable[..., Any], name: str, call: Invocation, a: Any) -> Any:
    return _call(call, function, _flat(call, a, name))


def _corrected(function: Callable[..., Any], name: str, call: Invocation, a: Any, ddof: Any = None) -> Any:
    flat = _flat(call, a, name)
    if flat.dtype.kind == "c":
        call.c.fail(f"{name} of complex numbers is not part of the kernel language: write the loop")
    return _call(call, function, flat, Constant(0) if ddof is None else ddof)


def _sorting_statistic(function: Callable[..., Any], name: str, call: Invocation, a: Any) -> Any:
    flat = _flat(call, a, name)
    return _call(call, function, flat, new_array(call.c, flat, Constant(flat.dtype), name))


_STATISTICS: dict[Callable[..., Any], dict[str, Callable[..., Any]]] = {
    _statistic: {
        "count_nonzero": _count_nonzero, "ptp": _extent, "nanmean": _nan_mean, "nansum": nan_sum,
        "nanprod": _over_numbers(np.prod, operator.mul),
        "nanmin": _nan_extreme(operator.lt), "nanmax": _nan_extreme(operator.gt),
    },
    _corrected: {"var": _variance, "std": _deviation, "nanvar": _nan_variance, "nanstd": _nan_deviation},
    _sorting_statistic: {"median": _median, "nanmedian": _nan_median},
}  # fmt: skip
for _handler, _functions in _STATISTICS.items():
    TABLE.update({getattr(np, name): partial(_handler, function, name) for name, function in _functions.items()})


# -- scans and sorting ---------------------------------------------------------------------------


def _scan(step: Callable[..., Any], first: int) -> Callable[..., Any]:
    def scan(x: Any, out: Any) -> None:
        total = out.dtype.type(first)
        for k in range(x.size):
            total = step(total, x[k])
            out[k] = total

    return scan


def _after(x: Any, y: Any) -> Any:
    """Return whether x comes after y in an ascending sort, with NaN last."""
    return x > y or (x != x and y == y)


def _sort(x: Any) -> None:
    """Sort an array in place by Shellsort. (This is kernel code.)"""
    gap = x.size // 2
    while gap > 0:
        for k in range(gap, x.size):
            item = x[k]
            j = k
            while j >= gap and _after(x[j - gap], item):
                x[j] = x[j - gap]
                j -= gap
            x[j] = item
        gap = 1 if gap == 2 else gap * 5 // 11


def _sorted_into(x: Any, out: Any) -> None:
    for k in range(x.size):
        out[k] = x[k]
    _sort(out)


def _order(x: Any, out: Any) -> None:
    """Write to `out` the indices that sort `x`, by a stable insertion sort. (This is kernel code.)"""
    for k in range(x.size):
        j = k
        while j > 0 and _after(x[out[j - 1]], x[k]):
            out[j] = out[j - 1]
            j -= 1
        out[j] = k


_INTO: dict[str, tuple[Callable[..., Any], Callable[[np.dtype], Any]]] = {
    "cumsum": (_scan(operator.add, 0), lambda dtype: _WIDE.get(dtype.kind, dtype)),
    "cumprod": (_scan(operator.mul, 1), lambda dtype: _WIDE.get(dtype.kind, dtype)),
    "sort": (_sorted_into, lambda dtype: dtype),
    "argsort": (_order, lambda dtype: np.int64),
}


def _into(name: str, call: Invocation, a: Any) -> Any:
    function, dtypes = _INTO[name]
    flat = _flat(call, a, name)
    if name in ("sort", "argsort") and _array(call, a, name).ndim != 1:
        call.c.fail(f"{name} in a kernel takes an array of one axis")
    made = new_array(call.c, flat, Constant(np.dtype(dtypes(flat.dtype))), name)
    _call(call, function, flat, made)
    return made


TABLE.update({getattr(np, name): partial(_into, name) for name in _INTO})


def sort_in_place(call: Invocation, array: ArrayValue) -> Constant:
    """Compile ``array.sort()`` for a 1-D array."""
    if array.ndim != 1:
        call.c.fail("sort() in a kernel takes an array of one axis")
    _call(call, _sort, array)
    return Constant(None)


methods.ARRAY_METHODS["sort"] = sort_in_place
for _name in ("argsort", "cumsum", "cumprod", "std", "var", "ptp"):
    methods.ARRAY_METHODS[_name] = TABLE[getattr(np, _name)]


# -- new arrays ----------------------------------------------------------------------------------


def _filled_with(call: Invocation, made: ArrayValue, value: Any) -> ArrayValue:
    """Set the elements of a new array to `value` unless `value` is None, and return the array."""
    if value is not None:
        arrays.assign_view(call.c, made, value)
    return made


def _filled(value: Any, call: Invocation, shape: Any, dtype: Any = None) -> Any:
    made = local_array(call.c, shape, Constant(np.float64) if dtype is None else dtype, "an array made in a kernel")
    return _filled_with(call, made, value)


def _filled_like(name: str, value: Any, call: Invocation, a: Any, dtype: Any = None) -> Any:
    array = _array(call, a, name)
    return _filled_with(call, new_array(call.c, array, Constant(array.dtype) if dtype is None else dtype, name), value)


for _name, _value in (("zeros", Constant(0)), ("ones", Constant(1)), ("empty", None)):
    TABLE[getattr(np, _name)] = partial(_filled, _value)
    TABLE[getattr(np, f"{_name}_like")] = partial(_filled_like, f"{_name}_like", _value)


def common_dtype(numbers: list[Any]) -> np.dtype:
    """Return the common dtype of scalars and constant numbers."""
    kinds = [n.dtype if isinstance(n, ScalarValue) else number_kind(n.value).dtype for n in numbers]
    return np.result_type(*kinds)


@handles(np.full)
def _full(call: Invocation, shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    kind = Constant(common_dtype([call.c.number(fill_value)])) if dtype is None else dtype
    return _filled(fill_value, call, shape, kind)


@handles(np.full_like)
def _full_like(call: Invocation, a: Any, fill_value: Any, dtype: Any = None) -> Any:
    return _filled_like("full_like", fill_value, call, a, dtype)


@handles(np.asarray)
def _as_array(call: Invocation, a: Any, dtype: Any = None) -> Any:
    if isinstance(a, ArrayValue) and (dtype is None or dtype_of(call.c, dtype) == a.dtype):
        return a
    return _array_of(call, a, dtype)


@handles(np.array)
def _array_of(call: Invocation, object: Any, dtype: Any = None) -> Any:
    """Compile ``np.array(object, dtype)`` for an array, a number or nested lists of numbers."""
    c = call.c
    if isinstance(object, ArrayValue):
        return _copied("np.array", call, object, dtype)
    shape, numbers = _nested(c, object)
    kind = Constant(common_dtype(numbers) if numbers else np.dtype(np.float64)) if dtype is None else dtype
    made = local_array(c, TupleValue(tuple(map(Constant, shape))), kind, "an array made in a kernel")
    flat = arrays.flatten(c, made) if shape else made
    for k, number in enumerate(numbers):
        arrays.store(c, flat, Constant(k) if shape else TupleValue(()), number)
    return made


def _nested(c: Compiler, value: object) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of a nested list or tuple, and a list of its numbers in C order."""
    if not isinstance(value, TupleValue):
        return (), [c.number(value, "a number in an array")]
    parts = [_nested(c, item) for item in value.items]
    if len({shape for shape, _ in parts}) > 1:
        c.fail("the rows of an array have different lengths")
    numbers = [number for _, row in parts for number in row]
    return (len(parts), *(parts[0][0] if parts else ())), numbers


def _copied(name: str, call: Invocation, a: Any, dtype: Any = None) -> ArrayValue:
    """Return a local copy of an array, with another dtype if one is given."""
    made = new_array(call.c, _array(call, a, name), Constant(a.dtype) if dtype is None else dtype, name)
    return _filled_with(call, made, a)


TABLE[np.copy] = lambda call, a: _copied("np.copy", call, a)
methods.ARRAY_METHODS["copy"] = lambda call, array: _copied("copy", call, array)
methods.ARRAY_METHODS["flatten"] = lambda call, array: arrays.flatten(call.c, _copied("flatten", call, array))
methods.ARRAY_METHODS["astype"] = lambda call, array, dtype: _copied("astype", call, array, dtype)


@handles(np.arange)
def _arange(call: Invocation, start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Any:
    c = call.c
    first, last = (Constant(0), start) if stop is None else (start, stop)
    parts = (first, last, Constant(1) if step is None else step)
    if not all(isinstance(part, Constant) for part in parts):
        c.fail(
            "the ends of np.arange have to be known when the kernel is compiled: use range, or a local array and a loop"
        )
    kind = None if dtype is None else dtype_of(c, dtype)
    values = compute(c, "np.arange", lambda: np.arange(*(part.value for part in parts), dtype=kind)).value
    begin, delta = (Constant(v) for v in (values[0], values[1] - values[0])) if values.size > 1 else (first, parts[2])

    def item(k: ScalarValue) -> Any:  # as NumPy: in the result's dtype, from the first two elements
        return c.apply("add", begin, c.apply("multiply", c.cast(k, values.dtype), delta))

    return _counted(call, values, item)


@handles(np.linspace)
def _linspace(call: Invocation, start: Any, stop: Any, num: Any = None) -> Any:
    c = call.c
    count = arrays.known_shape(Constant(50) if num is None else num)
    if count is None:
        c.fail("the number of points of np.linspace has to be known when the kernel is compiled")
    kinds = [c.kind(c.number(end)) for end in (start, stop)]
    examples = [kind(0) if isinstance(kind, type) else kind for kind in kinds]
    dtype = np.result_type(*examples, np.float64 if c.numba else 1.0)
    first, last = (c.cast(end, dtype) for end in (start, stop))
    step = c.apply("divide", c.apply("subtract", last, first), Constant(float(max(count[0] - 1, 1))))
    made = _counted(call, np.empty(count[0], dtype), lambda k: c.apply("add", c.apply("multiply", k, step), first))
    if count[0] > 1:
        arrays.store(c, made, Constant(count[0] - 1), last)
    return made


def _counted(call: Invocation, like: np.ndarray, item: Callable[[ScalarValue], Any]) -> ArrayValue:
    """Return a 1-D local array. The function `item` computes each element from its index.

    The size and dtype are those of `like`.
    """
    c = call.c
    made = local_array(c, Constant(like.size), Constant(like.dtype), "an array made in a kernel")
    with arrays.each(c, made.shape) as index:
        arrays.store(c, made, TupleValue(index), item(index[0]))
    return made
