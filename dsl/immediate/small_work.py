"""Size limits of immediate execution.

In: a function's name, its arguments and their shapes. Out: the maximum number of elements, whether a call is within the
limit, and the results of medium-sized reductions that NumPy also computes immediately. A medium-sized array exceeds the
usual limit on elements, but not the larger limits of some operations. Constants "per element of the limit" are
multiplied by the limit, in most cases ``IMMEDIATE[FIXED]``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from itertools import chain, pairwise
from math import inf, prod
from typing import Any

import numpy as np

from weft.codegen import OpDef
from weft.dsl.arrays.array import Array, adopt_new, user_location
from weft.dsl.immediate.host_values import stays_small, values_of
from weft.fusion import (
    REDUCTION_BLOCK,
    SHORT_COLUMN,
    NeedsKernelError,
    reduce_values,
    sum_of_products,
    was_evaluated_alone,
)
from weft.runtime import FIXED, IMMEDIATE, default_device, limit_on


def is_few(size: float) -> bool:
    """Return whether two arrays of `size` elements give a small result even if they broadcast to ``size**2`` elements."""
    return size * size <= IMMEDIATE[FIXED]


def shifts_of(op: OpDef) -> int:
    """Return the number of bits by which the element limit is shifted left for each dtype.

    The result is one integer, with two bits for each type number of NumPy.

    Vectorized loops of cheap ops process small elements in less time. For other ops, there is no shift. `ANY_SIZE`
    stands for arrays of any size, because NumPy reads no elements to test whether integers are NaN.
    """
    shifts = _SHIFTS if op.cost == 1 else 0
    if op.name in ("isfinite", "isinf", "isnan"):
        shifts |= sum(ANY_SIZE << 2 * np.dtype(code).num for code in "?bBhHiIlLqQ")
    return shifts


# (For bytes, a kernel with several threads is faster beyond a shift of 2.)
_SHIFTS = sum((2 if np.dtype(code).itemsize < 4 else 1) << 2 * np.dtype(code).num for code in "?bBhHiIf")
ANY_SIZE, LARGEST = 3, 40  # two bits, and the shift for which they stand


def shifts_of_function(name: str) -> int:
    """Return an integer that contains, in two bits per dtype, an exponent of 2. The power of 2 multiplies a function's limit of elements."""
    return _SHIFTS if name in _MOVING or name in _SHIFTED else 0


def limit_of(name: str, arguments: Any, options: dict[str, Any]) -> int:
    """Return the maximum number of elements for which a call is executed immediately."""
    rule = _RULES.get(name)
    return (rule(name, arguments, options) if rule else 0) or IMMEDIATE[FIXED if name in ORDERED else 0]


def _limit_searched(name: str, arguments: Any, options: dict[str, Any]) -> int:
    if len(arguments) < 2:
        return 0
    table, sought = (arguments[k] for k in _SEARCHES[name])
    values: Any = values_of(table) if type(table) is Array else table
    count = len(values) if type(values) in (list, tuple) else values.size if type(values) is np.ndarray else 0
    if not count or np.size(sought) * count.bit_length() > _STEPS * IMMEDIATE[FIXED]:
        return 0
    return max(len(arguments) * count, 2 * np.size(sought), IMMEDIATE[0])


def _limit_grown(name: str, arguments: Any, options: dict[str, Any]) -> int:
    if name == "einsum":
        return 0 if einsum_products(arguments) <= IMMEDIATE[FIXED] else GROWN
    if name == "tensordot":  # (BLAS computes it in NumPy, too)
        return 0 if _tensordot_products(*arguments, **options) <= MOST_PRODUCTS * IMMEDIATE[FIXED] else GROWN
    if name == "pad":
        size = _padded_size(arguments)
    elif name in PRODUCT_SIZES and options.keys() <= {"axis"}:
        size = _grown_size(name, arguments)
    else:
        return GROWN
    if size > IMMEDIATE[0] and name in COPYING and arguments and type(arguments[0]) is Array:
        return int(size) if size <= most_moved_alone([arguments[0]]) else GROWN
    return 0 if size <= IMMEDIATE[0] else GROWN


def _limit_moved(name: str, arguments: Any, options: dict[str, Any]) -> int:
    flat = [each for value in arguments for each in (value if type(value) in (list, tuple) else (value,))]
    arrays = [each for each in flat if type(each) is Array]
    if name == "ravel" and arrays and (values := values_of(arrays[0])) is not None and values.flags.c_contiguous:
        return values.size  # (returns a view)
    if name == "take" and len(arguments) == 2 and not options and arrays and type(arguments[1]) is int:
        return arrays[0].size
    if name == "stack" and (arguments[1:] or options):
        return 0  # (along most axes, NumPy writes element by element)
    # (rolled arrays are usually summed, by one kernel without a copy)
    return most_moved_alone(arrays, name == "roll", name in _KEEPING)


def _limit_diagonal(name: str, arguments: Any, options: dict[str, Any]) -> int:
    size = _limit_viewed(name, arguments, options)
    return size if size and max(arguments[0].shape) <= IMMEDIATE[FIXED] else 0


def _limit_viewed(name: str, arguments: Any, options: dict[str, Any]) -> int:
    values = values_of(arguments[0]) if arguments and type(arguments[0]) is Array else None
    return 0 if values is None else max(values.size, IMMEDIATE[0])


def _limit_shifted(name: str, arguments: Any, options: dict[str, Any]) -> int:
    first = arguments[0] if arguments else None
    if type(first) is not Array:
        return 0
    limit = shifted_limit(_SHIFTS, first.dtype)
    alone = first.size > limit and first.device.name == "cpu" and is_alone(first.nbytes, several=True)
    return first.size if alone else limit


def shifted_limit(shifts: int, dtype: np.dtype) -> int:
    """Return the element limit for a dtype: the usual limit, shifted left by the number of bits that `shifts` contains for the dtype (see `shifts_of`)."""
    shift = (shifts >> 2 * dtype.num) & 3
    return IMMEDIATE[0] << (LARGEST if shift == ANY_SIZE else shift)


def _limit_exact(name: str, arguments: Any, options: dict[str, Any]) -> int:
    values = values_of(arguments[0]) if arguments and type(arguments[0]) is Array else None
    if values is None or values.dtype.kind not in "biu" or not options.keys() <= {"axis"}:
        return 0
    return (
        EXACT_BYTES * IMMEDIATE[FIXED] // values.itemsize if _is_in_order(name, values, arguments[1:], options) else 0
    )


def _limit_equal(name: str, arguments: Any, options: dict[str, Any]) -> int:
    pair: list[Any] = [values_of(each) if type(each) is Array else each for each in arguments]
    if len(pair) != 2 or not all(type(each) is np.ndarray and each.flags.c_contiguous for each in pair):
        return 0
    return EXACT_BYTES * IMMEDIATE[FIXED] // sum([each.itemsize for each in pair])


def _limit_counted(name: str, arguments: Any, options: dict[str, Any]) -> int:
    weights = options.get("weights", arguments[1] if len(arguments) > 1 else None)
    return _COUNTED * IMMEDIATE[FIXED] * (1 if weights is None else 2)


# Factor for the limit of `bincount`. (Up to twice as many elements, kernels add weights in order, as NumPy does.)
_COUNTED = 8
# Functions that look up values in a sorted array: the positions of the array and of the values among the arguments.
_SEARCHES = {"searchsorted": (0, 1), "interp": (1, 0)}
# Number of comparisons of such a search, per element of the limit, that NumPy executes before a kernel would start.
_STEPS = 16


def _grown_size(name: str, arguments: Any) -> float:
    """Return an upper bound on the result size of a function such as `outer`, or infinity if it is unknown."""
    size = len(arguments) if name == "meshgrid" else 1
    for each in arguments:
        if type(each) in _ARRAYS:
            size *= each.size
        elif type(each) is int:
            size *= each
        elif type(each) is tuple and {type(n) for n in each} <= {int}:
            size *= prod(each)
        else:
            return inf
    return size


def _padded_size(arguments: Any) -> float:
    """Return an upper bound on the result size of `pad`, or infinity if it is unknown."""
    if len(arguments) < 2 or type(arguments[0]) not in _ARRAYS:
        return inf
    try:
        widest = arguments[1] if type(arguments[1]) is int else float(np.max(arguments[1]))
    except (OverflowError, TypeError, ValueError):
        return inf
    return prod([n + 2 * widest for n in arguments[0].shape])


def einsum_products(arguments: Any) -> float:
    """Estimate the work of a call of `numpy.einsum` as the number of element products to add up. The option `optimize` is assumed to be off.

    This is the product of the lengths of all subscripts. The result is infinity for subscripts with an ellipsis, and
    for arguments other than subscripts and arrays.
    """
    if not arguments or type(arguments[0]) is not str or not {type(each) for each in arguments[1:]} <= _ARRAYS:
        return inf
    return _count_products(arguments[0], tuple([each.shape for each in arguments[1:]]))


@lru_cache(maxsize=512)
def _count_products(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> float:
    given, _, _ = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    if "." in given or [len(term) for term in terms] != [len(shape) for shape in shapes]:
        return inf
    lengths: dict[str, int] = {}
    for letter, n in zip("".join(terms), chain.from_iterable(shapes), strict=True):
        lengths[letter] = max(n, lengths.get(letter, 1))
    return prod(lengths.values())


def _tensordot_products(a: Any, b: Any, axes: Any = 2, *_: Any) -> float:
    """Return the number of multiplications in a call of `numpy.tensordot`, or infinity if the number is unknown."""
    if not {type(a), type(b)} <= _ARRAYS:
        return inf
    with suppress(TypeError, IndexError):  # (wrong axes)
        own = range(a.ndim - axes, a.ndim) if type(axes) is int else axes[0] if np.iterable(axes[0]) else axes[:1]
        return a.size * b.size / max(1, prod([a.shape[k] for k in own]))
    return inf


_ARRAYS = {Array, np.ndarray}


def _is_in_order(name: str, values: np.ndarray, axes: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Return whether NumPy's reduction reads memory in order, or in long contiguous rows."""
    axes = (*axes, *options.values())
    if not axes or (values.ndim == 1 and axes in ((0,), (-1,))):
        rows = name in _WITHOUT_COPY and values.strides[-1:] == (values.itemsize,) and values.shape[-1] >= _LONG_ROW
        return rows or values.flags.c_contiguous
    axis = axes[0]
    if name == "count_nonzero" or len(axes) > 1 or type(axis) is not int or not -values.ndim <= axis < values.ndim:
        return False
    return values.strides[axis] == values.itemsize and values.shape[axis] >= _LONG_ROW


# Minimum length of rows for which NumPy's overhead per row is negligible.
_LONG_ROW = 8192
# Reductions of all elements that read the rows of an array without copying the array first.
_WITHOUT_COPY = frozenset({"all", "any", "max", "min"})


def most_moved_alone(arrays: list[Array], fused: bool = False, kept: bool = False) -> int:
    """Return the maximum number of elements that a call such as a concatenation copies immediately.

    The limit is higher if nothing was fused with the previous copy at this call site, and lower if `fused` is true.
    If `kept` is true, the copy has the same memory order as the arrays, not C order.
    """
    limit, unit = IMMEDIATE[0], IMMEDIATE[FIXED]
    least, size, in_rows = _MOVED_BYTES * unit if arrays else limit, 0, True
    for each in arrays:
        values = values_of(each)
        if values is None or each.device.name != "cpu":
            return limit
        width = values.itemsize
        least = min(least, max(1, _MOVED_BYTES // width) * unit)
        size += values.size
        # (NumPy copies other arrays element by element, whereas a kernel copies vectors)
        in_rows = in_rows and (width in values.strides if kept else values.strides[-1:] in ((width,), (0,)))
    most = max(limit, least)
    if fused:
        most = shifted_limit(_SHIFTS, arrays[0].dtype) if arrays else limit
    if not unit < least or not most < size <= _ALONE * least or not in_rows:
        return most
    return _ALONE * least if was_evaluated_alone(user_location()) else most


# Functions that move elements, and the number of bytes that they may move per element of the limit. NumPy moves these
# bytes in the time that recording takes, so recording does not pay off even if the function would fuse.
_MOVING = frozenset("append concatenate copy hstack ravel flatten roll stack take vstack".split())
_MOVED_BYTES = 16
_KEEPING = frozenset({"append", "concatenate", "hstack", "roll", "vstack"})  # ... that keep the memory order
# Functions that return views of arrays in memory, of any size.
_VIEWING = frozenset(
    "atleast_1d atleast_2d atleast_3d diagonal expand_dims moveaxis rollaxis rot90 squeeze swapaxes".split()
)
# Other functions whose limit is shifted.
_SHIFTED = frozenset("around clip diff flip fliplr flipud round tril triu".split())
# Functions that copy arrays in C order in rows.
COPYING = frozenset("append concatenate copy flatten hstack pad repeat roll tile vstack".split())
# Factor for the limit of moved elements at a call site where nothing was fused with the previous copy.
_ALONE = 8
# Number of bytes, per element of the limit, that such a call may move.
MOVED_ALONE = _ALONE * _MOVED_BYTES
# Reductions whose results do not depend on the order of elements (except for signs of float zeros), and the number of
# bytes that they may read per element of the limit. NumPy has read these bytes before a kernel would start.
EXACT = frozenset({"all", "any", "argmax", "argmin", "count_nonzero", "max", "min", "nanmax", "nanmin", "ptp"})
EXACT_BYTES = 256
_NEVER = 1 << 40
# Functions whose results can have many more elements than their arguments, and their limit.
GROWING = frozenset({"kron", "meshgrid", "outer", "pad", "repeat", "tile", "tensordot", "einsum", "vander", "resize"})
GROWN = 128
# Functions in `GROWING` whose result has at most as many elements as the product of the sizes and numbers passed.
PRODUCT_SIZES = frozenset({"kron", "meshgrid", "outer", "repeat", "tile", "vander"})
# Functions whose results depend on the order of additions or multiplications. For large arrays, weft's order differs
# from NumPy's. The empty name represents methods of ufuncs.
ORDERED = frozenset(
    " average corrcoef cov dot einsum inner matmul mean nanmean nanprod nanstd nansum nanvar norm prod std sum tensordot"
    " trace trapezoid var vdot vecdot".split(" ")
)
# Functions that warn about empty arrays, with the user's source line.
WARNING = frozenset({"mean", "nanmean", "nanstd", "nanvar", "std", "var"})
# Rules of the functions whose limit may differ from `IMMEDIATE`. A rule returns 0 for the usual limit.
_RULES: dict[str, Callable[[str, Any, dict[str, Any]], int]] = {
    **dict.fromkeys(_SEARCHES, _limit_searched),
    **dict.fromkeys(GROWING, _limit_grown),
    **dict.fromkeys(_MOVING, _limit_moved),
    **dict.fromkeys(_VIEWING, _limit_viewed),
    **dict.fromkeys(_SHIFTED, _limit_shifted),
    **dict.fromkeys(EXACT, _limit_exact),
    "trace": _limit_diagonal,
    "array_equal": _limit_equal,  # (NumPy compares arrays in memory before a kernel would start)
    "bincount": _limit_counted,  # (a scatter with atomics, which nothing fuses with)
}
# NumPy's functions that are equal to a method of ndarray, which takes less time: the method, and the maximum number of
# positional arguments for which the two agree.
_METHODS = {
    **{name: (name, 2) for name in "sum prod min max mean std var any all argmin argmax cumsum cumprod".split()},
    **{
        name: (name, 2)
        for name in "argsort dot take squeeze ravel nonzero repeat round searchsorted diagonal trace".split()
    },
    "amin": ("min", 2),
    "amax": ("max", 2),
    "swapaxes": ("swapaxes", 3),
}
METHODS_OF_FUNCTIONS: dict[Callable[..., Any], tuple[Callable[..., Any], int]] = {
    getattr(np, name): (getattr(np.ndarray, method), most) for name, (method, most) in _METHODS.items()
}
# Functions that broadcast their arguments.
BROADCASTING = frozenset({"allclose", "array_equal", "clip", "isclose", "where"})
# Functions that join a list of arrays.
JOINING = frozenset({"concatenate", "concat", "stack", "vstack", "hstack", "dstack", "column_stack", "block"})
# Number of arrays up to which joins are recorded unless all elements together are few. (Recording takes 70 us per array.)
_RECORDED_JOINS = 8
_PRODUCTS = frozenset({"dot", "inner", "matmul", "vdot"})
MOST_PRODUCTS = 64  # maximum number of multiplications per element of the limit


# Number of positional arguments before `out`, by the name of a function or method. A method's array is an argument, too.
_INPUTS = {
    name: count
    for count, names in {
        1: "fix isneginf isposinf",
        2: "all amax amin any argmax argmin around choose concat concatenate dot matmul max median min nanargmax nanargmin"
        " nanmax nanmedian nanmin outer ptp round stack",
        3: "accumulate clip compress cumprod cumsum mean nancumprod nancumsum nanmean nanpercentile nanprod nanquantile"
        " nanstd nansum nanvar percentile prod quantile reduce std sum take var",
        4: "fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn reduceat rfft rfft2 rfftn",
        5: "trace",
    }.items()
    for name in names.split()
}


def most_inputs(name: str) -> int:
    """Return the maximum number of positional inputs before `out`, or 64 (no limit) if `out` is not positional."""
    return _INPUTS.get(name, 64)


# Number of bytes, per element of the limit, up to which a function may be executed immediately by its rule or by
# `reduce_whole`. (For larger arrays, a kernel with several threads takes less time.)
_RULED_BYTES = 64


def immediate_bytes(name: str) -> int:
    """Return a function's additional limit in bytes for immediate execution.

    Return 0 if only the usual limit on the number of elements applies.

    The result is the number of bytes per element of the usual limit. At call sites for which `was_evaluated_alone` is true, larger
    arrays may also be processed immediately.
    """
    if name in _PRODUCTS:
        return _NEVER  # (matrices of any size may be multiplied immediately)
    if name in EXACT:
        return EXACT_BYTES
    return _RULED_BYTES if name in WHOLE or (name in _RULES and name not in {*_SHIFTED, "roll"}) else 0


def is_cast_immediately(values: np.ndarray, kind: np.dtype) -> bool:
    """Return whether an array is cast to a dtype immediately. The limit is on bytes, not on elements."""
    width = min(8, max(2, values.itemsize, kind.itemsize))
    if not values.shape or not values.size:
        return False
    return width * values.size <= 8 * IMMEDIATE[0] or is_alone(max(values.itemsize, kind.itemsize) * values.size)


def is_alone(nbytes: int, several: bool = False) -> bool:
    """Return whether an op on `nbytes` bytes is executed immediately, because nothing would fuse with it.

    With `several`, return whether a call is executed immediately that may record several ops.

    For too many bytes, a kernel with several threads takes less time. Otherwise, the previous evaluation at the user's
    call site is decisive (`was_evaluated_alone`).
    """
    return nbytes <= MOVED_ALONE * IMMEDIATE[FIXED] and was_evaluated_alone(user_location(), several)


def is_immediate(name: str, shapes: list[tuple[int, ...]], limit: int) -> bool:
    """Return whether a function is executed immediately for arguments of these shapes."""
    if name in BROADCASTING:
        return all(stays_small(one, other, limit) for one, other in pairwise(shapes))
    if name in _PRODUCTS and len(shapes) == 2 and all(shapes):
        return prod(shapes[0]) * prod(shapes[1]) <= MOST_PRODUCTS * limit * max(1, shapes[0][-1])
    sizes = [*map(prod, shapes)]
    return are_joined(sizes, limit) if name in JOINING else sum(sizes) <= limit


def is_usual(arguments: Any, options: dict[str, Any]) -> bool:
    """Return whether a call has a usual form: ``f(x)`` or ``f(x, n)``, optionally with ``axis=k``, for integers n and k."""
    return (len(arguments) == 1 or (len(arguments) == 2 and type(arguments[1]) is int)) and (
        not options or (len(options) == 1 and type(options.get("axis")) is int)
    )


def are_joined(sizes: list[int], limit: int) -> bool:
    """Return whether NumPy should join arrays of these sizes: few elements in total, or many arrays that are all small."""
    return sum(sizes) <= limit or (len(sizes) > _RECORDED_JOINS and max(sizes) <= limit)


# -- reductions of whole arrays in memory: nothing fuses with them, and the result is a scalar ---------

# Maximum number of elements for which plans also compute a variance from two sums.
_TWO_SUMS = 2 * REDUCTION_BLOCK
ROWS = {"sum": "add", "mean": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
ALONG_AXIS = frozenset({*ROWS, "norm", "std", "var"})  # functions that `reduce_rows` knows
WHOLE = frozenset({*ROWS, "all", "any", "argmax", "argmin", "norm", "std", "var"})
# Factor for the limit of reductions of whole arrays. Up to this limit, a recorded reduction takes longer, although it
# may run on several threads.
MOST_WHOLE = 16
# Maximum number of bytes, per element of the limit, that an immediate reduction along one axis reads.
_MOST_ROWS = 128
# Maximum size in bytes of each operand of an immediate dot product, per element of the limit. For longer vectors, a
# kernel with all threads takes less time.
_MOST_DOT = 64
# Minimum length of rows whose maximum NumPy finds quickly.
_SHORTEST_ROW = 16


def most_whole(name: str, itemsize: int) -> int:
    """Return the maximum number of elements that `reduce_whole` should reduce."""
    return (EXACT_BYTES // itemsize if name in EXACT else MOST_WHOLE) * IMMEDIATE[FIXED]


def is_large(arguments: Any) -> bool:
    """Return whether the array to be reduced is in host memory and too large for immediate execution."""
    values = values_of(arguments[0]) if arguments and type(arguments[0]) is Array else None
    return values is not None and values.nbytes > EXACT_BYTES * IMMEDIATE[FIXED]


def reduce_whole(name: str, values: np.ndarray) -> Any:
    """Reduce all elements of an array on the host. Return None if NumPy may not give the same result as a kernel."""
    kind = values.dtype
    if name in ("all", "any", "max", "min"):
        values = _without_repeats(values)
    if not values.flags.c_contiguous and name not in ("argmax", "argmin"):  # (plans also read memory in order)
        values = values.transpose(sorted(range(values.ndim), key=lambda axis: -values.strides[axis]))
    if kind.kind == "c" or not values.flags.c_contiguous:
        return None
    if name == "norm":
        flat = values.reshape(-1)
        return np.sqrt(_dot(flat, flat)) if kind.char in "fd" else None
    if name in ("mean", "sum") and kind.kind in "biu":
        if name == "mean" and kind.itemsize > 4:
            return None  # (a sum of floats may be rounded)
        total = np.int64(np.count_nonzero(values)) if kind.kind == "b" else values.sum()
        return np.float64(total) / np.float64(values.size) if name == "mean" else total
    if name in ("std", "var"):
        return _spread(name, values) if kind.kind == "f" and values.size <= _TWO_SUMS else None
    if name not in ROWS or kind.kind in "biu" or name in ("max", "min"):
        number = getattr(values, name)()
        if kind.kind in "biu" or name not in ROWS or number != 0:  # (zeros may have both signs)
            return number
    try:
        found = reduce_values(ROWS[name], values, tuple(range(values.ndim)), kind)
    except NeedsKernelError:
        return None
    return found / kind.type(values.size) if name == "mean" else found


def _without_repeats(values: np.ndarray) -> np.ndarray:
    """Return a view of `values` in which each axis with a stride of 0 has length 1."""
    if 0 not in values.strides:
        return values
    return values[tuple([slice(None) if step else slice(1) for step in values.strides])]


def reduce_rows(name: str, values: np.ndarray, axis: int, keepdims: bool) -> Any:
    """Reduce float32 or float64 elements along one axis on the host, or return None.

    Return None for other dtypes, and if a kernel is necessary, takes less time or may fuse other operations.
    """
    axis %= values.ndim
    kind, length, last = values.dtype, values.shape[axis], axis == values.ndim - 1
    if kind.char not in "fd" or not values.size:
        return None
    if name in ("max", "min") and (once := _without_repeats(values)).shape != values.shape and values.strides[axis]:
        found = reduce_rows(name, once, axis, True)
        if found is None:
            return None
        found = np.broadcast_to(found, (*values.shape[:axis], 1, *values.shape[axis + 1 :])).copy()
        return found if keepdims else found.squeeze(axis)
    if values.nbytes > _MOST_ROWS * IMMEDIATE[FIXED]:
        return None
    if name in ("max", "min"):
        fast = not last or length >= _SHORTEST_ROW
    elif name in ("std", "var") and last:
        fast = length <= _TWO_SUMS
    else:
        fast = last or length <= SHORT_COLUMN
    plain, spread = fast and values.flags.c_contiguous, name in ("std", "var")
    if not plain and (spread or values.size > IMMEDIATE[0]):
        return None
    if values.size > IMMEDIATE[0] and not was_evaluated_alone(user_location(), several=True):
        return None
    if spread:
        mean = reduce_values("add", values, (axis,), kind, True) / kind.type(length)
        distance = values - mean
        found = reduce_values("add", np.square(distance, distance), (axis,), kind, keepdims) / kind.type(length)
        return np.sqrt(found) if name == "std" else found
    if name == "norm":
        return np.sqrt(reduce_values("add", np.square(values), (axis,), kind, keepdims))
    try:
        found = reduce_values(ROWS[name], values, (axis,), kind, keepdims)
    except NeedsKernelError:
        return None
    return found / kind.type(length) if name == "mean" else found


def dot_whole(x: Any, y: Any) -> Any:
    """Return the dot product of two medium-sized float vectors, or None for other operands."""
    if x.size <= IMMEDIATE[FIXED] or x.nbytes > _MOST_DOT * IMMEDIATE[FIXED] or x.dtype.char not in "fd":
        return None
    left, right = (values_of(each) if type(each) is Array else each for each in (x, y))
    if left is None or right is None or not (left.flags.c_contiguous and right.flags.c_contiguous):
        return None
    with np.errstate(all="ignore"):
        return _dot(left, right)


def _dot(left: np.ndarray, right: np.ndarray) -> Any:
    found = sum_of_products(left, right) if left.size > 1 else None
    return reduce_values("add", np.multiply(left, right), (0,), left.dtype) if found is None else found


def _spread(name: str, values: np.ndarray) -> Any:
    count, axes = values.dtype.type(values.size), tuple(range(values.ndim))
    distance = values - reduce_values("add", values, axes, values.dtype) / count
    found = reduce_values("add", np.square(distance, distance), axes, values.dtype) / count
    return np.sqrt(found) if name == "std" else found


def make_small(function: Callable[..., Any], size: int, *arguments: Any) -> Array | None:
    """Create an array of `size` elements with a NumPy function, or return None if the array must be recorded.

    It must be recorded if it is too large, or if the default device does not keep small arrays in host memory.
    """
    device = default_device()
    if size > limit_on(device.name) or not device.small_on_host:
        return None
    return adopt_new(function(*arguments), device)
