"""Special methods of `Array`, such as ``__add__``."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from weft.codegen import OPS, find_op
from weft.dsl.arrays.array import (
    VALUE_READS,
    Array,
    ReadOnly,
    Scalar,
    adopt_new,
    as_operand,
    expr_of,
    operator_location,
    record,
    user_location,
    write,
)
from weft.dsl.arrays.call_sites import (
    ASSIGN,
    IN_PLACE,
    LEFT,
    PLAIN,
    RECORD,
    REFLECTED,
    accepts,
    apply,
    check_devices,
    copy_operand,
    look_up,
    memoize,
    on_operands_device,
    record_and_memoize,
)
from weft.dsl.arrays.foreign import has_foreign, is_foreign
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.numbers import bind_numbers, within_64_bits
from weft.dsl.arrays.on_host import call_numpy, from_host, note_fallback
from weft.dsl.arrays.results import check_cast
from weft.dsl.arrays.ufunc import SHORT_POWERS, UFUNCS, check_power
from weft.dsl.arrays.validation import UnsupportedDtypeError
from weft.dsl.functions.own_names import COMPOSED, OWN
from weft.dsl.immediate.at_call import (
    MISSED,
    Implementation,
    attempt,
    attempt_into,
    from_numpy_result,
    implementation_of,
    note_call,
)
from weft.dsl.immediate.callers import is_library
from weft.dsl.immediate.host_values import values_of
from weft.dsl.immediate.library_calls import apply_for_library
from weft.dsl.immediate.small_work import shifted_limit
from weft.fusion import Location, assign, broadcast_shapes, cast, constant, current_epoch, cut, map_, recording
from weft.runtime import IMMEDIATE

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_WEAK = frozenset({bool, int, float, complex})


def _attempt(way: Implementation, array: Array, other: Any, reflected: bool) -> Any:
    """Execute a binary operator immediately, or return `MISSED` if this is not possible."""
    values, device, kind = array._values, array._device, type(other)
    if device is not None and values is not None and type(array) is Array and values.size <= IMMEDIATE[0]:
        given = None
        if kind in _WEAK:
            given = other
        elif kind is Array and other._device is device and (given := other._values) is not None:
            given = given if given.shape == values.shape else None
        if given is not None and (way.types >> values.dtype.num) & 1:
            if kind in _WEAK or (way.types >> given.dtype.num) & 1:
                VALUE_READS[0] += 1
                note_call()
                result = way.function(given, values) if reflected else way.function(values, given)
                if type(result) is np.ndarray and result.base is None and result.flags.forc:
                    return adopt_new(result, device)
                return from_numpy_result(result, device)
    return attempt(way, (other, array) if reflected else (array, other))


def _attempt_scalar(way: Implementation, scalar: Scalar, other: Any, reflected: bool) -> Any:
    """Execute a binary operator of a `Scalar` immediately, or return `MISSED` if this is not possible."""
    number = number_of_scalar(scalar)
    if number is None:
        return MISSED
    second = number_of_scalar(other) if type(other) is Scalar else other
    return attempt(way, (second, number) if reflected else (number, second), scalar.device)


def _binary_method(
    op: str, reflected: bool = False, execute: Callable[[Implementation, Any, Any, bool], Any] = _attempt
) -> Callable[[Array, Any], Array]:
    """Return a method for a binary operator, such as ``__add__``.

    The method calls `execute`, and records the operation if the result is `MISSED`.
    """
    way = REFLECTED if reflected else PLAIN
    definition = find_op(op)
    immediate = implementation_of(definition, getattr(operator, f"__{definition.dunder}__"))

    def method(self: Array, other: object) -> Any:
        found = execute(immediate, self, other, reflected)
        if found is not MISSED:
            return found
        where = operator_location()
        if type(other) is np.ndarray:
            other = copy_operand(other, self.device)
        key, node = look_up(op, way, self, other, *where)
        if node is not None:
            return record(node)
        return _record_operation(op, way, self, other, where, key)

    if execute is _attempt:
        method.records = op, way, RECORD  # type: ignore[attr-defined]
    return method


@on_operands_device
def _record_operation(op: str, way: int, first: Array, second: Any, where: Location, key: object) -> Any:
    """Record a binary operation for which no memoized expression exists. If weft cannot record the operation, compute it with NumPy."""
    if op == "multiply" and isinstance(first, Scalar) and isinstance(second, (list, tuple)):
        return second * first._count()  # repeats the sequence, as NumPy's scalars do
    if not accepts(second):
        if op in ("equal", "not_equal") and (second is None or isinstance(second, (str, bytes))):
            if not first.shape:
                return np.bool_(op == "not_equal")
            return record(constant(op == "not_equal", np.bool_, first.shape))  # as in NumPy, no element is equal
        return compute_by_numpy(op, way, first, second)
    try:
        return record_and_memoize(op, (second, first) if way == REFLECTED else (first, second), where, key)
    except UnsupportedDtypeError:
        return compute_by_numpy(op, way, first, second)


def compute_by_numpy(op: str, way: int, first: Array, second: Any) -> Any:
    """Compute a binary operation with NumPy if weft does not support the second operand.

    Return NotImplemented if only the second operand's type can implement the operation.
    """
    kind, function = type(second), getattr(operator, f"__{find_op(op).dunder}__")
    if is_foreign(second) and getattr(kind, "__array_ufunc__", kind) is not None:
        # like NumPy's arrays, leave the result to the operators of that type
        if hasattr(kind, "__torch_function__"):  # its reflected operators do not accept NumPy arrays
            function = getattr(np, find_op(op).ufunc or op)
    elif not isinstance(second, (np.ndarray, np.generic)) and (
        hasattr(kind, "__array_ufunc__") or hasattr(kind, "__array_priority__")
    ):
        return NotImplemented
    else:
        note_fallback(f"numpy.{find_op(op).ufunc}", first)
    own = first.numpy()[()] if isinstance(first, Scalar) else first.numpy()
    return from_host(function(second, own) if way == REFLECTED else function(own, second))


def _in_place(op: str) -> Any:
    definition = find_op(op)
    immediate = implementation_of(definition)

    def method(self: Array, other: Any) -> Any:
        few = self.size <= shifted_limit(immediate.shifts, self.dtype)
        if few and attempt_into(self, immediate, (self, other)):
            return self
        if type(other) is np.ndarray:
            other = copy_operand(other, self.device)
        where = operator_location()
        key, node = look_up(op, IN_PLACE, self, other, *where)
        if node is not None and assign(self._storage, node, key[LEFT], recording.epoch):  # type: ignore[arg-type]
            self._after_write()
            return self
        if accepts(other):
            with suppress(UnsupportedDtypeError):
                return _record_in_place(op, self, other, where, key)
        elif is_foreign(other):
            return _foreign_in_place(op, self, other)
        found = compute_by_numpy(op, PLAIN, self, other)
        if found is not NotImplemented:
            check_cast(op, found.dtype, self.dtype)
            self[...] = found  # type: ignore[index]
            return self
        return NotImplemented

    method.records = op, IN_PLACE, ASSIGN  # type: ignore[attr-defined]
    return method


@on_operands_device
def _record_in_place(op: str, target: Array, other: Any, where: Location, key: Any) -> Array:
    """Record an in-place operator that is not in the memo."""
    check_devices(op, (target, other))
    before = current_epoch()
    epoch = cut(before, where)
    if epoch is not before:
        key = None  # the key refers to objects bound in the previous epoch
    if op == "power" and (short := _short_power(target, other)) is not None:
        node = map_(short, [expr_of(target)], location=where)
    elif op == "power" and _is_cube(target, other):
        base = expr_of(target)
        node = map_("multiply", [map_("square", [base], location=where), base], location=where)
    else:
        if op == "power":
            check_power(target, other)
        pair = as_operand(within_64_bits(op, other, (target, other)))
        node = map_(op, [expr_of(target), pair[0]], [None, pair[1]], location=where)
        if recording.epoch is epoch:
            node = bind_numbers(node, (target, other), where, epoch)
    check_cast(op, node.dtype, target.dtype)
    if broadcast_shapes(node.shape, target.shape) != target.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {target.shape} doesn't match the broadcast shape {node.shape}"
        )
    previous, version = write(target, cast(node, target.dtype))
    if key is not None and previous is key[LEFT]:  # (unless another thread has written to the storage since)
        memoize(key, version, where, epoch)
    return target


def _foreign_in_place(op: str, target: Array, other: object) -> Any:
    """Call the ``__array_ufunc__`` method of a foreign operand to execute an in-place operator.

    The method receives a copy of the array as its output. If the method returns this copy, it is copied back to the
    array. Otherwise, the method's result is returned. Return NotImplemented if the operand has no such method.
    """
    if not callable(getattr(type(other), "__array_ufunc__", None)):
        return NotImplemented
    values = np.array(target.numpy())
    found = getattr(np, find_op(op).ufunc)(values, other, out=(values,))
    if found is not values:
        return found
    target[...] = values  # type: ignore[index]
    return target


def _refuse(self: Array, other: object) -> Any:
    raise ValueError("output array is read-only")


def _unary(op: str) -> Any:
    definition = find_op(op)
    immediate = implementation_of(definition, getattr(operator, f"__{definition.dunder}__"))

    def method(self: Array) -> Array:
        found = attempt(immediate, (self,))
        return apply(op, self, location=operator_location()) if found is MISSED else found

    method.records = op, PLAIN, RECORD  # type: ignore[attr-defined]
    return method


def _short_power(base: Array, exponent: Any) -> str | None:
    if type(exponent) not in (int, float, base.dtype.type) or exponent not in SHORT_POWERS:
        return None
    name, kind = SHORT_POWERS[exponent], base.dtype.kind
    if kind in "fc":
        return name
    # (the square of a bool array is int8, that of a bool scalar is int64)
    whole = {"square": "iu" if isinstance(base, Scalar) else "biu", "positive": "iu"}.get(name, "")
    return name if kind in whole and type(exponent) is int else None


def _is_cube(base: Array, exponent: Any) -> bool:
    """Return whether a power is a cube of float32 or float64 elements.

    Weft computes such a cube by multiplications. The multiplications take a fortieth of the time of `power`, and their
    error is less than 2 units in the last place.
    """
    return type(exponent) in (int, float) and exponent == 3 and base.dtype.char in "fd"


def number_of_scalar(scalar: Scalar) -> Any:
    """Return the value of a `Scalar` as a NumPy scalar.

    Return None if the value is pending or not in host memory, or if immediate execution is disabled.
    """
    values = values_of(scalar) if IMMEDIATE[0] else None
    if values is None:
        return None
    VALUE_READS[0] += 1
    return values[()]


def power(base: Array, exponent: Any) -> Any:
    """Return ``base ** exponent``, with NumPy's errors and shortcuts."""
    if accepts(exponent):
        found = _power_at_once(base, exponent)
        if found is not MISSED:
            return found
        with suppress(UnsupportedDtypeError):
            return _record_power(base, exponent)
    return compute_by_numpy("power", PLAIN, base, exponent)


def _power_at_once(base: Array, exponent: Any) -> Any:
    short = _short_power(base, exponent)
    if short is None and type(exponent) in (int, float) and exponent == 0:
        return MISSED
    number = number_of_scalar(base) if type(base) is Scalar else None
    first = base if number is None else number
    if _is_cube(base, exponent):
        square = attempt(implementation_of(find_op("square")), (first,), base.device)
        if square is MISSED:
            return MISSED
        return attempt(implementation_of(find_op("multiply")), (square, first), base.device)
    immediate = implementation_of(find_op(short or "power"), None if short else operator.pow)
    return attempt(immediate, (first,) if short is not None else (first, exponent), base.device)


@memoized
def _record_power(base: Array, exponent: Any) -> Any:
    short, where = _short_power(base, exponent), user_location()
    if short is not None:
        return apply(short, base, location=where)
    check_power(base, exponent)
    if type(exponent) in (int, float) and exponent == 0 and base.dtype.kind in "fc":
        one = constant(1, base.dtype, base.shape)
        return record(one)
    if _is_cube(base, exponent):
        return apply("multiply", apply("square", base, location=where), base, location=where)
    return apply("power", base, exponent, location=where)


def _array_power(self: Array, exponent: Any) -> Any:
    """Implement ``**`` for an array, with a fast path for small arrays."""
    values = self._values
    if values is not None and values.size <= IMMEDIATE[0]:
        short = _short_power(self, exponent)
        if short is not None:
            return UFUNCS[short](self)
        if values.dtype.kind == "f" and type(exponent) is float and exponent not in (0, 3):
            return UFUNCS["power"](self, exponent)
    return power(self, exponent)


_array_power.records = _record_power.records  # type: ignore[attr-defined]


def array_ufunc(self: Array, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """Implement ``__array_ufunc__`` by weft's ufunc if possible, otherwise by NumPy's ufunc."""
    ours = UFUNCS.get(ufunc.__name__)
    is_numpys = getattr(np, ufunc.__name__, None) is ufunc
    if not (is_numpys or getattr(sys.modules.get("scipy.special"), ufunc.__name__, None) is ufunc):
        ours = None  # (a ufunc of another package, such as one that Numba has compiled, may have the same name)
    if method == "__call__" and options.keys() == {"out"} and ours is not None and ours.immediate.function is ufunc:
        found = attempt(ours.immediate, inputs)
        if found is not MISSED and (found := _put_into(ufunc.__name__, found, *options["out"])) is not MISSED:
            return found
    if is_library(2) and (found := apply_for_library(ufunc, method, inputs, options)) is not MISSED:
        return found
    if len(options.get("out") or ()) == 1:
        options["out"] = options["out"][0]
        if method == "reduce" and sys._getframe(1).f_code.co_name in _NUMPY_MEANS:
            _refuse_numpy_method(inputs[0], options["out"])
    whole = method == "__call__" and is_numpys and ufunc.__name__ in COMPOSED
    ours = OWN[ufunc.__name__] if whole else ours
    if ours is None or (ufunc is np.matmul and not whole) or has_foreign((*inputs, *options.values())):
        return call_numpy(ufunc if method == "__call__" else getattr(ufunc, method), inputs, options)
    return ours(*inputs, **options) if method == "__call__" else getattr(ours, method)(*inputs, **options)


# NumPy's Python functions behind the methods of ndarray that divide a sum in place if it is an ndarray.
_NUMPY_MEANS = ("_mean", "_var")


def _refuse_numpy_method(array: Any, out: Any) -> None:
    """Raise TypeError if the method `mean`, `std` or `var` of a NumPy array would write its result to the weft array
    `out`.

    NumPy would not divide the sum in `out` by the number of elements.
    """
    if isinstance(array, np.ndarray) and isinstance(out, Array):
        if sys._getframe(2).f_globals.get("__name__") == "numpy._core._methods":
            raise TypeError(
                "mean, std and var of a NumPy array cannot write to a weft array: call weft.mean, weft.std or weft.var"
            )


def _put_into(name: str, found: Any, out: Any) -> Any:
    """Copy a small result to `out` and return `out`, or return `MISSED` if this is not possible.

    `out` must be a NumPy array of the result's shape.
    """
    values = values_of(found) if type(found) is Array else found
    if type(out) is not np.ndarray or values is None or values.shape != out.shape:
        return MISSED
    check_cast(name, values.dtype, out.dtype)
    np.copyto(out, values, casting="same_kind")
    return out


def install() -> None:
    """Attach the operators to `Array`, `Scalar` and `ReadOnly`."""
    for definition in OPS.values():
        name = definition.dunder
        if not name:
            continue
        if definition.arity == 1:
            setattr(Array, f"__{name}__", _unary(definition.name))
            continue
        setattr(Array, f"__{name}__", _binary_method(definition.name))
        setattr(Scalar, f"__{name}__", _binary_method(definition.name, execute=_attempt_scalar))
        if name not in _COMPARISONS:
            setattr(Array, f"__r{name}__", _binary_method(definition.name, True))
            setattr(Array, f"__i{name}__", _in_place(definition.name))
            setattr(Scalar, f"__r{name}__", _binary_method(definition.name, True, _attempt_scalar))
            # (A scalar is immutable, so ``s += y`` assigns the new scalar ``s + y`` to `s`.)
            setattr(Scalar, f"__i{name}__", _binary_method(definition.name, execute=_attempt_scalar))
            setattr(ReadOnly, f"__i{name}__", _refuse)
    setattr(Array, "__pow__", _array_power)
    setattr(Scalar, "__pow__", power)
    setattr(Scalar, "__ipow__", power)
    setattr(Array, "__divmod__", lambda self, other: (self // other, self % other))
    setattr(Array, "__rdivmod__", lambda self, other: (other // self, other % self))
    setattr(Array, "__array_ufunc__", array_ufunc)


install()
