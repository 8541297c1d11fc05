"""Reductions and scans, with NumPy's axes, dtypes and errors."""

from __future__ import annotations

from math import copysign, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from weft.codegen import EXTREMES, find_op, identity_of, is_half, resolve_dtypes, widened
from weft.dsl.arrays.array import Array, as_operand, expr_of, record, start
from weft.dsl.arrays.docstrings import named
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.memory_order import memory_order, permuted, unpermuted
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.results import array_output, as_array, as_mask, check_cast, return_result, to_python
from weft.dsl.arrays.scatter import is_gpu
from weft.dsl.arrays.validation import as_dtype, normalize_axes, normalize_axis
from weft.fusion import (
    Expr,
    broadcast_shapes,
    broadcast_to,
    cast,
    constant,
    current_epoch,
    iota,
    map_,
    recording,
    reduce_,
    reshape,
    scan,
)
from weft.runtime import warn_user

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, DTypeLike, Output, ShapeLike

_NO_VALUE = np._NoValue  # type: ignore[attr-defined]
# Ops that reduce bools in place of other ops.
_OPS_OF_BOOLS = {"maximum": "logical_or", "minimum": "logical_and", "add": "logical_or", "multiply": "logical_and"}


def reduction_dtype(op: str, dtype: np.dtype) -> np.dtype:
    """Return NumPy's default result dtype for reducing elements of `dtype` with an op."""
    if op in ("add", "multiply"):
        if dtype.kind == "b" or (dtype.kind == "i" and dtype.itemsize < 8):
            return np.dtype(np.int64)
        if dtype.kind == "u" and dtype.itemsize < 8:
            return np.dtype(np.uint64)
    if op in ("logical_and", "logical_or", "logical_xor"):
        return np.dtype(bool)
    return dtype


def _kind_with(out: Any, own: np.dtype) -> np.dtype:
    """Return the dtype in which NumPy computes a reduction if the caller passes `out` but not `dtype`.

    `own` is the dtype of the elements.
    """
    return np.result_type(own, array_output(out).dtype)


def _return_result(name: str, node: Expr, out: Output | None, casting: str = "same_kind") -> Any:
    """Return a reduction's result as a new array, or write it to `out`, which must have the same shape."""
    out = array_output(out)
    if out is not None and tuple(out.shape) != node.shape:
        raise ValueError(f"output parameter for {name} has the wrong shape: {tuple(out.shape)}, not {node.shape}")
    return return_result(name, node, out, casting=casting)


def reduce(
    op: str,
    values: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Any:
    """Reduce `values` along axes with an op."""
    axis, keep = to_python(axis), keepdims is not _NO_VALUE and bool(keepdims)
    where_from = start()
    node = expr_of(as_array(values))
    if not node.shape and axis is not None and axis in (0, -1):
        node = reshape(node, (1,))
        keep = False
    axes = normalize_axes(axis, len(node.shape))
    asked = dtype
    if dtype is None and out is not None and op[:7] != "logical":
        dtype = _kind_with(out, node.dtype)
    kind = as_dtype(dtype) if dtype is not None else reduction_dtype(op, node.dtype)
    has_initial = initial is not None and initial is not _NO_VALUE
    is_masked = where is not True and where is not _NO_VALUE
    if not _is_scannable(op, kind) or (kind.kind == "c" and op in ("maximum", "minimum")):
        plain = not is_masked and not has_initial and kind == node.dtype and kind.kind == "c"
        # (the kernels read a complex array four times; NumPy's loop reads it once)
        recorded = plain and is_gpu((recording.epoch or current_epoch()).device)
        if recorded and axes and node.size and op in ("maximum", "minimum"):
            return _return_result(op, _find_complex(op, node, axes, keep), out, casting="unsafe")
        options: dict[str, Any] = {"axis": axis, "keepdims": keep}
        options |= {"initial": initial} if has_initial else {}
        options |= {"where": where} if is_masked else {}
        return _by_numpy(op, "reduce", values, asked, out, options)
    _check_bits(op, kind)
    if op in EXTREMES and not has_initial:
        if not prod([node.shape[a] for a in axes]):
            raise ValueError(f"zero-size array to reduction operation {op} which has no identity")
        if is_masked:
            raise ValueError(
                f"reduction operation '{op}' does not have an identity, so to use a where mask one has to specify 'initial'"
            )
    op = _OPS_OF_BOOLS.get(op, op) if kind.kind == "b" else op
    node = cast(node, kind) if op[:7] != "logical" else node
    if op[:7] == "logical" and node.dtype.kind != "b":
        node = map_("not_equal", [node, constant(0, node.dtype)])
    first = _initial_value(initial, kind) if has_initial else None
    lowest = first if op == "add" and kind.kind == "f" and _is_negative_zero(initial) else None
    if is_masked:
        node = _masked(op, node, where, lowest)
    result = reduce_(op, node, axes, kind, keep, where_from) if axes else node
    if first is not None:
        result = cast(map_(op, [result, first]), kind)
    if lowest is not None and axes:  # (a kernel's sum starts at 0.0, and -0.0 + 0.0 is 0.0)
        zeros = map_("logical_and", [map_("equal", [node, constant(0, kind)]), map_("signbit", [node])])
        result = map_("where", [reduce_("logical_and", zeros, axes, np.dtype(bool), keep), lowest, result])
    return _return_result(op, result, out, casting="unsafe")


def _is_scannable(op: str, kind: np.dtype) -> bool:
    """Return whether kernels can compute scans with an op for a dtype. The op must have an identity element, and logical ops need the dtype bool."""
    return find_op(op).identity is not None and (op[:7] != "logical" or kind.kind == "b")


def _by_numpy(op: str, method: str, values: Any, dtype: Any, out: Output | None, options: dict[str, Any]) -> Any:
    """Call a method of a NumPy ufunc, such as `numpy.add.reduce`. If `out` is given, write the result to `out`."""
    if dtype is not None:
        options["dtype"] = dtype
    if out is not None:
        options["out"] = np.empty(out.shape, out.dtype)  # (its dtype determines the ufunc's inner loop)
    found = call_numpy(getattr(getattr(np, find_op(op).ufunc), method), (values,), options)
    return found if out is None else _return_result(op, expr_of(as_array(found)), out, casting="unsafe")


def _initial_value(initial: Any, kind: np.dtype) -> Expr:
    """Return the initial value of a reduction as an expression of the reduction's dtype."""
    if isinstance(initial, Array) and not initial.shape:
        return cast(expr_of(initial), kind)
    value = np.zeros((), kind)
    value[()] = initial
    return constant(value[()], kind)


def _is_negative_zero(number: Any) -> bool:
    return not isinstance(number, Array) and number == 0 and copysign(1, number) < 0


def _check_bits(op: str, dtype: np.dtype) -> None:
    """Raise NumPy's TypeError for bitwise reductions of floats and complex numbers."""
    if op[:7] == "bitwise" and dtype.kind in "fc":
        resolve_dtypes(find_op(op), (dtype, dtype))


def _masked(op: str, node: Expr, where: ArrayLike, neutral: Expr | None) -> Expr:
    """Replace the elements of `node` by `neutral` where a mask is false. If `neutral` is None, use the op's identity element."""
    mask = as_operand(as_mask(where))[0]
    if len(mask.shape) > len(node.shape):
        raise ValueError("input operand has more dimensions than allowed by the axis remapping")
    shape = broadcast_shapes(node.shape, mask.shape)
    if neutral is None:
        neutral = constant(identity_of(op, node.dtype), node.dtype)
    return broadcast_to(map_("where", [mask, node, neutral]), shape)


# Ops for which scans of bools and complex numbers by kernels are bit-identical to NumPy's.
_EXACT_SCANS = frozenset({"add", "multiply", "logical_and", "logical_or", "logical_xor"})


def accumulate(
    op: str, values: ArrayLike, axis: int | None = 0, dtype: DTypeLike | None = None, out: Output | None = None
) -> Any:
    """Compute the scan of an array along an axis with an op."""
    axis = to_python(axis)
    location = start()
    array = as_array(values)
    if out is None and axis is not None and (order := memory_order([array])) is not None:
        axis = order.index(normalize_axis(axis, array.ndim))
        return unpermuted(accumulate(op, permuted(array, order), axis, dtype), order)
    node = expr_of(array)
    if axis is None or not node.shape:
        node, axis = reshape(node, (node.size,)), axis or 0
    axis_number = normalize_axis(axis, len(node.shape))
    asked = dtype
    if dtype is None and out is not None and op[:7] != "logical":
        dtype = _kind_with(out, node.dtype)
    kind = as_dtype(dtype) if dtype is not None else reduction_dtype(op, node.dtype)
    _check_bits(op, kind)
    # NumPy rounds every partial result of 16-bit floats, which a parallel scan cannot do.
    compute_by_numpy = is_half(kind) and not is_gpu((recording.epoch or current_epoch()).device)
    if not _is_scannable(op, kind) or compute_by_numpy or (kind.kind in "bc" and op not in _EXACT_SCANS):
        return _by_numpy(op, "accumulate", record(node), asked, out, {"axis": axis_number})
    op = _OPS_OF_BOOLS.get(op, op) if kind.kind == "b" else op
    wide = widened(kind)
    found = cast(scan(op, cast(cast(node, kind), wide), axis_number, wide, location), kind)
    return _return_result(op, found, out, casting="unsafe")


def _find_complex(op: str, node: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Record the maximum, minimum, argmax or argmin of complex numbers.

    Complex numbers are ordered by their real parts, then by their imaginary parts. If there are NaNs, the
    first one is the extreme.
    """
    real, imag = map_("real", [node]), map_("imag", [node])
    largest, kind = op in ("argmax", "maximum"), real.dtype
    none = constant(-np.inf if largest else np.inf, kind)

    def over_axes(operation: str, values: Expr) -> Expr:
        return broadcast_to(reduce_(operation, values, axes, values.dtype, True), node.shape)

    extreme = "maximum" if largest else "minimum"
    unknown = map_("logical_or", [map_("isnan", [real]), map_("isnan", [imag])])
    known = map_("logical_not", [unknown])
    first = map_("equal", [real, over_axes(extreme, map_("where", [unknown, none, real]))])
    first = map_("logical_and", [first, known])
    both = map_("equal", [imag, over_axes(extreme, map_("where", [first, imag, none]))])
    both = map_("logical_and", [both, first])
    found = map_("where", [over_axes("logical_or", unknown), unknown, both])
    flat, step = constant(0, np.int64), 1
    for axis in sorted(axes, reverse=True):  # (indices count in C order, even if the axes are given in another order)
        along = map_("multiply", [iota(node.shape, axis, np.dtype(np.int64)), constant(step, np.int64)])
        flat, step = map_("add", [flat, along]), step * node.shape[axis]
    position = reduce_(
        "minimum", map_("where", [found, flat, constant(step, np.int64)]), axes, np.dtype(np.int64), True
    )
    shape = tuple(1 if k in axes else n for k, n in enumerate(node.shape) if keepdims or k not in axes)
    if op[:3] == "arg":
        return reshape(position, shape)
    chosen = map_("equal", [flat, broadcast_to(position, node.shape)])
    parts = [
        reduce_("maximum", map_("where", [chosen, part, constant(-np.inf, kind)]), axes, kind, True)
        for part in (real, imag)
    ]
    return reshape(map_("_complex", parts), shape)


def make_reduction(op: str, name: str, prepare: Any = None) -> Any:
    """Return a function like `numpy.sum` that reduces arrays with an op, after applying `prepare` if it is given."""

    def function(
        a: ArrayLike,
        axis: ShapeLike | None = None,
        dtype: DTypeLike | None = None,
        out: Output | None = None,
        keepdims: bool = False,
        initial: complex | None = None,
        where: ArrayLike = True,
    ) -> Any:
        return reduce(op, a if prepare is None else prepare(a), axis, dtype, out, keepdims, initial, where)

    return memoized(named(name, function))


def _extreme(op: str, name: str) -> Any:
    def function(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
    ) -> Any:
        return reduce(op, a, axis, None, out, keepdims, initial, where)

    return memoized(named(name, function))


sum = make_reduction("add", "sum")
prod_ = make_reduction("multiply", "prod")
max = _extreme("maximum", "max")
min = _extreme("minimum", "min")


def _truth(op: str, name: str) -> Any:
    def function(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
        return reduce(op, a, axis, None, out, keepdims, None, where)

    return memoized(named(name, function))


all = _truth("logical_and", "all")
any = _truth("logical_or", "any")


@memoized
def count_nonzero(a: ArrayLike, axis: ShapeLike | None = None, *, keepdims: bool = False) -> Any:
    """Count the nonzero elements.

    Examples
    --------
    >>> wf.count_nonzero([[0, 1], [2, 0]])
    np.int64(2)
    """
    start()
    node = expr_of(as_array(a))
    if node.dtype.kind != "b":
        node = map_("not_equal", [node, constant(0, node.dtype)])
    return reduce("add", record(node), axis, np.int64, None, keepdims)


@memoized
def mean(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Any:
    """Return the arithmetic mean along the given axes.

    By default, the mean of integers and bools is computed in float64, and 16-bit floats are summed in float32.

    Examples
    --------
    >>> wf.mean([[1.0, 2.0], [3.0, 4.0]], axis=0)
    array([2., 3.])
    """
    start()
    values = as_array(a)
    if dtype is None and out is not None and values.dtype.kind in "fc":
        dtype = _kind_with(out, widened(values.dtype))
    kind, result = _mean_dtypes(values.dtype, dtype)
    total = reduce("add", values, axis, kind, None, keepdims, None, where)
    count = _count(values, axis, keepdims, where)
    if isinstance(count, int) and not count:
        warn_user("Mean of empty slice", RuntimeWarning)
    quotient = map_("divide", [expr_of(total), _as_count(count, kind)])
    return _return_result("divide", cast(quotient, result), out, casting="unsafe")


def _mean_dtypes(own: np.dtype, dtype: DTypeLike | None) -> tuple[np.dtype, np.dtype]:
    if dtype is not None:
        return as_dtype(dtype), as_dtype(dtype)
    if own.kind in "biu":
        return np.dtype(np.float64), np.dtype(np.float64)
    return widened(own), own


def _count(values: Array, axis: ShapeLike | None, keepdims: bool, where: ArrayLike) -> Any:
    if where is True or where is _NO_VALUE:
        return prod(values.shape[k] for k in normalize_axes(axis, values.ndim))
    mask = record(broadcast_to(cast(as_operand(where)[0], np.dtype(bool)), values.shape))
    return reduce("add", mask, axis, np.int64, None, keepdims)


def _divisor_dtype(kind: np.dtype) -> np.dtype:
    """Return the dtype of the number by which a sum of dtype `kind` is divided.

    It is float64 for bools, integers and 16-bit floats, which might not hold the number, and `kind` otherwise.
    """
    return np.dtype(np.float64) if kind.kind in "biu" or is_half(kind) else kind


def _as_count(count: Any, kind: np.dtype) -> Expr:
    kind = _divisor_dtype(kind)
    return cast(expr_of(count), kind) if isinstance(count, Array) else constant(count, kind)


@memoized
def var(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """Return the variance: the sum of squared deviations, divided by the element count minus `ddof`.

    Examples
    --------
    >>> wf.var([2.0, 4.0], ddof=1)
    np.float64(2.0)
    """
    axis, ddof, correction = to_python(axis), to_python(ddof), to_python(correction)
    location = start()
    values = as_array(a)
    if correction is not None and ddof:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    ddof = ddof if correction is None else correction
    ddof = ddof.item() if hasattr(ddof, "item") else ddof  # (a small integer dtype could not hold the difference)
    kind, result = _mean_dtypes(values.dtype, dtype)
    typed = cast(expr_of(values), kind)
    count = _count(values, axis, True, where)
    if mean is None:
        total = reduce("add", record(typed), axis, kind, None, True, None, where)
        centre = cast(map_("divide", [expr_of(total), _as_count(count, kind)]), kind)
    else:
        centre = as_operand(mean)[0]
    wide = np.result_type(values.dtype, kind)
    if wide == kind:
        distance = map_("subtract", [typed, centre])
    else:  # only the sums use the requested dtype
        distance = map_("subtract", [cast(expr_of(values), wide), cast(cast(centre, kind), wide)])
    if wide.kind == "c":
        parts = [map_(name, [distance]) for name in ("real", "imag")]
        squares = map_("add", [map_("square", [p]) for p in parts])
    else:
        squares = map_("square", [distance])
    summed = squares.dtype if wide == kind else kind
    reduced = reduce("add", record(squares), axis, summed, None, keepdims, None, where)
    count = _count(values, axis, keepdims, where)
    if isinstance(count, Array):
        counted = np.dtype(np.int64 if ddof == int(ddof) else np.float64)
        less = map_("subtract", [cast(expr_of(count), counted), constant(ddof, counted)])
        below = cast(map_("maximum", [less, constant(0, counted)]), _divisor_dtype(summed))
    else:
        rest = count - ddof
        if rest <= 0:
            warn_user("Degrees of freedom <= 0 for slice", RuntimeWarning)
        below = _as_count(rest if rest > 0 else 0, summed)
    quotient = map_("divide", [expr_of(reduced), below], location=location)
    real = np.dtype(f"f{result.itemsize // 2}") if result.kind == "c" and dtype is None else result
    return _return_result("divide", cast(quotient, real), out, casting="unsafe")


@memoized
def std(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """Return the standard deviation, the square root of the variance.

    Examples
    --------
    >>> wf.std([2.0, 4.0])
    np.float64(1.0)
    """
    values = as_array(a)
    spread = var(
        values,
        axis,
        np.float32 if is_half(values.dtype) and dtype is None else dtype,
        None,
        ddof,
        keepdims,
        where=where,
        mean=mean,
        correction=correction,
    )
    node = map_("sqrt", [expr_of(spread)])
    if is_half(values.dtype) and dtype is None:
        node = cast(node, values.dtype)
    elif spread.dtype.kind in "biu":  # (as requested; NumPy returns a scalar of this dtype, and rejects an array)
        if spread.ndim:
            check_cast("sqrt", node.dtype, spread.dtype)
        node = cast(node, spread.dtype)
    return _return_result("sqrt", node, out)


def _return_position(op: str, node: Expr, out: Output | None) -> Any:
    """Return the result of argmax or argmin as a new array, or write it to `out`.

    The dtype of `out` must cast safely to int64.
    """
    if out is not None and not np.can_cast(array_output(out).dtype, np.int64):
        raise TypeError(f"Cannot cast array data from {out.dtype!r} to dtype('int64') according to the rule 'safe'")
    return _return_result(op, node, out, casting="unsafe")


def _position(op: str) -> Any:
    def function(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        axis = to_python(axis)
        location = start()
        node = expr_of(as_array(a))
        keep = keepdims is not _NO_VALUE and bool(keepdims)
        axes = (
            normalize_axes(axis if axis is None else (axis,), len(node.shape))
            if node.shape or axis not in (0, -1)
            else ()
        )
        if not prod(node.shape[k] for k in axes) and (axis is None or prod(node.shape) == 0):
            raise ValueError(f"attempt to get {op} of an empty sequence")
        if node.dtype.kind == "b":
            node = cast(node, np.dtype(np.uint8))
        if not axes:
            return _return_position(op, constant(0, np.int64), out)
        if node.dtype.kind == "c":
            return _return_position(op, _find_complex(op, node, axes, keep), out)
        if axis is None and len(node.shape) > 1:
            shape = (1,) * len(node.shape) if keep else ()
            return _return_position(op, reshape(reduce_(op, node, axes, np.int64, False, location), shape), out)
        return _return_position(op, reduce_(op, node, axes, np.int64, keep, location), out)

    return memoized(named(op, function))


argmax = _position("argmax")
argmin = _position("argmin")


def make_scan(op: str, name: str, prepare: Any = None) -> Any:
    """Return a function like `numpy.cumsum` that scans arrays with an op, after applying `prepare` if it is given."""

    def function(
        a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Output | None = None
    ) -> Any:
        return accumulate(op, a if prepare is None else prepare(a), axis, dtype, out)

    return memoized(named(name, function))


cumsum = make_scan("add", "cumsum")
cumprod = make_scan("multiply", "cumprod")


@memoized
def ptp(a: ArrayLike, axis: ShapeLike | None = None, out: Output | None = None, keepdims: bool = False) -> Any:
    """Return the difference between the maximum and the minimum ("peak to peak").

    Examples
    --------
    >>> wf.ptp([2, 9, 4])
    np.int64(7)
    """
    values = as_array(a)
    return _return_result(
        "subtract", map_("subtract", [expr_of(as_array(f(values, axis, None, keepdims))) for f in (max, min)]), out
    )


def average(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """Return the average along the given axes, weighted if `weights` is given.

    If `returned` is true, also return the sum of the weights, or the number of elements without weights.

    Examples
    --------
    >>> wf.average([1.0, 2.0, 6.0], weights=[1, 1, 2])
    np.float64(3.75)
    """
    values = as_array(a)
    axes = None if axis is None else normalize_axis_tuple(axis, values.ndim, "axis")
    if weights is None:
        found = mean(values, axes, keepdims=keepdims)
        total: Any = found.dtype.type(values.size / found.size)
    else:
        found, total = _weighted(values, as_array(weights), axes, keepdims)
    return (found, record(broadcast_to(as_operand(total)[0], found.shape))) if returned else found


def _weighted(values: Any, weights: Any, axes: tuple[int, ...] | None, keepdims: Any) -> tuple[Any, Any]:
    """Return the weighted mean and the sum of the weights. Raises ZeroDivisionError if a sum of weights is 0."""
    kind = np.result_type(values.dtype, weights.dtype, *(("f8",) if values.dtype.kind in "biu" else ()))
    if values.shape != weights.shape:
        if axes is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        if weights.shape != tuple(values.shape[k] for k in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        shape = tuple(n if k in axes else 1 for k, n in enumerate(values.shape))
        weights = weights.transpose(np.argsort(axes).tolist()).reshape(shape)
    total = reduce("add", weights, axes, kind, None, keepdims)
    product = map_("multiply", [cast(expr_of(values), kind), cast(expr_of(weights), kind)])
    found = reduce("add", record(product), axes, kind, None, keepdims)
    if (total == 0).any():
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    return found / total, total
