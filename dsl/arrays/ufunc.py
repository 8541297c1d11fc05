"""Ufuncs for the public ops in the op table, with NumPy's calling conventions.

In: arrays and scalars. Out: recorded arrays. `UFUNCS` contains the ufuncs by name and alias. `where`, `clip`, `real`
and `imag` have no ufuncs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from types import MethodType
from typing import Any

import numpy as np

from weft.codegen import OPS, NoLoopError, OpDef, identity_of, is_half
from weft.dsl.arrays.array import Array, Scalar, as_operand, convert, expr_of, record, start, user_location, whole, wrap
from weft.dsl.arrays.call_sites import PLAIN, RECORD, apply, on_operands_device, transposed
from weft.dsl.arrays.docstrings import UFUNC_EXAMPLES, add_example
from weft.dsl.arrays.foreign import OWN_TYPES, has_foreign
from weft.dsl.arrays.indexing import apply_at
from weft.dsl.arrays.memory_order import in_requested_order, memory_order, unpermuted
from weft.dsl.arrays.numbers import within_64_bits
from weft.dsl.arrays.on_host import call_numpy, note_fallback
from weft.dsl.arrays.results import array_output, as_array, as_mask, copy_to_out, return_result, single_output
from weft.dsl.arrays.scatter import is_gpu
from weft.dsl.arrays.validation import (
    ForeignOperandError,
    UnsupportedDtypeError,
    as_dtype,
    normalize_axis,
    warn_of_uninitialized,
)
from weft.dsl.functions import reductions
from weft.dsl.immediate.at_call import MISSED, attempt, attempt_into, call_small, implementation_of
from weft.dsl.immediate.host_values import values_of
from weft.fusion import constant, iota, map_
from weft.runtime.lazy_names import unquote_annotations

ABSENT: Any = np._NoValue  # type: ignore[attr-defined]

# Functions whose immediate execution follows the same rules as a method of an op's ufunc.
_SAME_RULES = {
    "reduce": {"maximum": "max", "minimum": "min", "multiply": "prod"},
    "accumulate": {"multiply": "cumprod"},
}


def _or_numpys(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a ufunc method, so that NumPy executes calls that are small or that weft does not support."""
    reduces, numpys = method.__name__ != "outer", _SAME_RULES.get(method.__name__, {})

    @wraps(method)
    def called(self: UFunc, *arguments: Any, **options: Any) -> Any:
        if reduces and arguments:
            (first, *_), name = arguments, numpys.get(self.definition.name, "")
            small = type(first) is Array and (self.immediate.types >> first.dtype.num) & 1
            if small or (name and type(first) in (Array, list, tuple)):
                # (without an axis, `min` and `cumprod` would use all elements)
                given = options if len(arguments) > 1 or "axis" in options or not name else {"axis": 0, **options}
                found = call_small(getattr(self.immediate.function, method.__name__), arguments, given, name)
                if found is not MISSED:
                    return found
        if not has_foreign((*arguments, *options.values())):
            try:
                return method(self, *arguments, **options)
            except UnsupportedDtypeError:
                pass
        return call_numpy(getattr(getattr(np, self.definition.ufunc), method.__name__), arguments, options)

    return on_operands_device(called, method.__name__)


def _describe(definition: OpDef) -> str:
    """Return the docstring of an op's ufunc."""
    like = f"Like `numpy.{definition.ufunc}`, this" if definition.ufunc else "This"
    broadcasts = " and broadcasts the operands" if definition.arity > 1 else ""
    text = f"{definition.doc}\n\n{like} function operates on each element{broadcasts}."
    if definition.name not in UFUNC_EXAMPLES:
        return text
    operands, result = UFUNC_EXAMPLES[definition.name]
    return add_example(text, f">>> wf.{definition.name}({operands})\n{result}")


class UFunc:
    """An elementwise function with the interface of a NumPy ufunc.

    An entry in the op table defines the function.

    Examples
    --------
    >>> isinstance(wf.add, wf.UFunc), wf.add.nin
    (True, 2)
    >>> wf.add.reduce([1, 2, 3])
    np.int64(6)
    """

    __slots__ = ("__dict__", "__weakref__", "immediate")  # (read by native code)

    def __init__(self, definition: OpDef) -> None:
        self.definition = definition
        self.immediate = implementation_of(definition)
        self.__name__ = definition.name
        self.__signature__: inspect.Signature
        self.nin = definition.arity
        self.nout = 1
        self.nargs = definition.arity + 1
        self.identity = getattr(np, definition.ufunc).identity if definition.ufunc else None
        self.__doc__ = _describe(definition)

    def __repr__(self) -> str:
        return f"<weft ufunc {self.definition.name!r}>"

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of NumPy's ufunc, such as ``types``, ``signature`` or ``resolve_dtypes``."""
        theirs = None if name.startswith("_") else getattr(np, self.definition.ufunc or "", None)
        if not hasattr(theirs, name):
            raise AttributeError(f"a weft ufunc has no attribute {name!r}", name=name, obj=self)
        return getattr(theirs, name)

    def __reduce__(self) -> Any:
        return find_ufunc, (self.definition.name,)

    def __call__(
        self,
        *operands: Any,
        out: Any = ABSENT,
        where: Any = True,
        dtype: Any = None,
        casting: str = "same_kind",
        order: Any = "K",
        subok: bool = True,
        signature: Any = ABSENT,
        sig: Any = ABSENT,
        **others: Any,
    ) -> Any:
        if others:
            operands = self._operands_by_name(operands, others)
        if out is ABSENT:
            out = None
            if len(operands) == self.nin + 1:
                *operands, out = operands  # type: ignore[assignment]
            if where is not True and out is None:
                warn_of_uninitialized(where)
        elif isinstance(out, tuple):
            out = single_output(out)
        if len(operands) != self.nin:
            raise TypeError(
                f"{self.definition.name}() takes from {self.nin} to {self.nin + 1} positional arguments but {len(operands)} were given"
            )
        if casting != "same_kind":
            self._check_casting(operands, out, dtype, casting)
        if out is ... or (out is None and order not in ("K", None)):
            found = self(*operands, **_numpys_options(None, where, dtype, casting, signature, sig))
            if out is None:
                return in_requested_order(found, order, operands)
            return wrap(found._storage) if type(found) is Scalar else found  # (an array for numbers, too)
        names_loop = signature is not ABSENT or sig is not ABSENT
        try:
            plain = dtype is out is None and where is True and not names_loop
            if plain and is_short_power(self.definition.name, *operands):
                return operands[0] ** operands[1]
            if names_loop or (dtype is not None and casting == "unsafe"):
                raise UnsupportedDtypeError(signature)  # NumPy executes a call that names a loop
            if where is True and dtype is None:
                if out is not None and casting == "same_kind" and attempt_into(out, self.immediate, operands):
                    return out
                found = attempt(self.immediate, operands)
                if found is not MISSED:
                    return found if out is None else copy_to_out(self.definition.name, found, out, casting)
            if not OWN_TYPES.issuperset(map(type, (*operands, out, where))) and has_foreign((*operands, out, where)):
                raise ForeignOperandError
            if self.definition.name == "power" and dtype is None:
                check_power(*operands)
            if out is None and where is True and dtype is None:
                return apply(self.definition.name, *operands, location=user_location(2))
            return self._call_recorded(operands, out, where, dtype, casting)
        except (UnsupportedDtypeError, NoLoopError, OverflowError) as error:
            theirs = getattr(np, self.definition.ufunc or self.definition.name, None)
            if theirs is None or (type(error) is OverflowError and any(isinstance(v, Array) for v in operands)):
                raise  # (without other operands, Python ints beyond 64 bits are NumPy objects)
            return call_numpy(theirs, operands, _numpys_options(out, where, dtype, casting, signature, sig))

    def _operands_by_name(self, operands: tuple[Any, ...], others: dict[str, Any]) -> tuple[Any, ...]:
        """Return the operands that a call passes by keyword, or raise TypeError.

        Only `sinc` accepts its operand by keyword, because `numpy.sinc` is not a ufunc.
        """
        name = self.definition.name
        if name == "sinc" and not operands and others.keys() == {"x"}:
            return (others["x"],)
        raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(others))!r}")

    @on_operands_device
    def _call_recorded(self, operands: Any, out: Any, where: Any, dtype: Any, casting: str) -> Any:
        """Record a call of the ufunc with the options `out`, `where`, `dtype` or `casting`."""
        location, where = start(), as_mask(where)
        if out is None:
            *operands, where = (
                convert(value) if isinstance(value, (list, tuple, np.ndarray)) else value
                for value in (*operands, where)
            )
            given = [value for value in (*operands, where) if isinstance(value, Array)]
            if (order := memory_order(given)) is not None:
                *operands, where = (transposed(value, order) for value in (*operands, where))
                return unpermuted(self._call_recorded(operands, out, where, dtype, casting), order)
        loop = None if dtype is None else as_dtype(dtype)
        pairs = [as_operand(within_64_bits(self.definition.name, value, operands)) for value in operands]
        node = map_(self.definition.name, [p[0] for p in pairs], [p[1] for p in pairs], loop, location)
        return return_result(self.definition.name, node, out, where, casting)

    def _check_casting(self, operands: Any, out: Any, dtype: Any, casting: str) -> None:
        """Raise NumPy's error for an unknown casting rule, or for operands that the rule does not allow."""
        if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
            raise ValueError(f"casting must be one of 'no', 'equiv', 'safe', 'same_kind', 'unsafe' (got {casting!r})")
        theirs = getattr(np, self.definition.ufunc or "", None)
        if theirs is None or has_foreign((*operands, out)):
            return
        # (`resolve_dtypes` of NumPy 2.4 crashes for types of Python numbers.)
        given = [
            v
            if type(v) in (int, float, complex)
            else np.empty(0, v.dtype if hasattr(v, "dtype") else np.asarray(v).dtype)
            for v in operands
        ]
        options = {} if dtype is None else {"dtype": dtype}
        if isinstance(out, (Array, np.ndarray)):
            options["out"] = np.empty(0, out.dtype)
        with np.errstate(all="ignore"):
            theirs(*given, casting=casting, **options)

    @_or_numpys
    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        """Reduce an array along the given axes, like `numpy.ufunc.reduce`."""
        return reductions.reduce(
            self.definition.name, array, axis, dtype, single_output(out, True), keepdims, initial, where
        )

    @_or_numpys
    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Return the scan of an array along an axis, like `numpy.ufunc.accumulate`."""
        if axis is None and np.ndim(array) > 1:
            raise ValueError("accumulate does not allow multiple axes")
        if not np.ndim(array):
            raise TypeError("cannot accumulate on a scalar")
        return reductions.accumulate(self.definition.name, array, axis, dtype, single_output(out, True))

    @_or_numpys
    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Reduce slices along an axis, like `numpy.ufunc.reduceat`.

        On a GPU, kernels compute sums, minima and maxima of integers, float32 and float64, if the indices increase and
        `out` is None. NumPy computes all other results on the host.
        """
        if out is None and isinstance(array, Array) and array.ndim:
            segments = _reduce_segments(self.definition.name, array, indices, axis, dtype)
            if segments is not None:
                return segments
        note_fallback(f"{self.definition.name}.reduceat", array, indices)
        begins = np.asarray(indices, None if np.size(indices) else np.intp)  # (an empty list has no dtype)
        out = array_output(single_output(out, True))
        theirs = None if out is None else np.empty(out.shape, out.dtype)  # (its dtype determines the loop)
        found = convert(getattr(np, self.definition.ufunc).reduceat(np.asarray(array), begins, axis, dtype, theirs))
        return found if out is None else return_result(self.definition.name, expr_of(found), out, casting="unsafe")

    @_or_numpys
    def outer(self, first: Any, second: Any, **options: Any) -> Any:
        """Apply the function to every pair of elements, like `numpy.ufunc.outer`."""
        if self.nin != 2:
            raise ValueError("outer product only supported for binary functions")
        a, b = as_array(first), as_array(second)
        ones = (1,) * b.ndim
        if values_of(a) is not None:
            return self(a.reshape(a.shape + ones), b, **options)
        # (pending arrays stay pending, because the result may be large)
        shape, strides, offset = a._view or whole(a._storage)
        return self(wrap(a._storage, (shape + ones, strides + (0,) * b.ndim, offset)), b, **options)

    @on_operands_device
    def at(self, array: Any, indices: Any, values: Any = None) -> Any:
        """Apply the function in place to the indexed elements, once for each occurrence of an index."""
        if (values is None) != (self.nin == 1):
            raise ValueError("second operand needed for ufunc" if self.nin == 2 else "this ufunc takes one operand")
        if not isinstance(array, Array):
            given = (array, indices) if values is None else (array, indices, values)
            return call_numpy(getattr(np, self.definition.ufunc).at, given, {})
        return apply_at(self.definition.name, array, indices, values)


# (Native code may replace this method. Its memo keys contain the name of the ufunc.)
UFunc.__call__.records = None, PLAIN, RECORD  # type: ignore[attr-defined]

# Ops whose results `apply_at` computes on a GPU independently of the order of the elements at an index.
_SEGMENTED = frozenset({"add", "maximum", "minimum"})


def _reduce_segments(op: str, values: Array, indices: Any, axis: int, dtype: Any) -> Any:
    """Reduce slices of an array on a GPU, or return None if NumPy must reduce them.

    The slices begin at the indices, which must increase.
    """
    begins = np.asarray(indices)
    if not is_gpu(values.device) or op not in _SEGMENTED or begins.ndim != 1 or begins.dtype.kind not in "iu":
        return None
    axis_number, kind = normalize_axis(axis, values.ndim), as_dtype(dtype, reductions.reduction_dtype(op, values.dtype))
    count = values.shape[axis_number]
    increasing = begins.size and 0 <= begins[0] and begins[-1] < count and bool((np.diff(begins) > 0).all())
    if not increasing or kind.kind not in "iuf" or is_half(kind):
        return None
    rows: Any = np.moveaxis(values.astype(kind), axis_number, 0)[int(begins[0]) :]  # type: ignore[type-var]
    # (with -0.0, a sum of zeros keeps its sign)
    neutral = -0.0 if op == "add" and kind.kind == "f" else identity_of(op, kind)
    found = record(constant(neutral, kind, (begins.size, *rows.shape[1:]))).copy()
    slices = (
        np.searchsorted(as_array(begins - begins[0]), record(iota((count - int(begins[0]),), 0, np.int64)), "right") - 1
    )
    apply_at(op, found, slices, rows)
    return np.moveaxis(found, 0, axis_number)  # type: ignore[type-var]


# NumPy computes these powers by cheaper operations, which affect the bits of the result.
SHORT_POWERS = {2: "square", 1: "positive", 0.5: "sqrt", -1: "reciprocal"}


def is_short_power(op: str, base: Any, exponent: Any = None, *_: Any) -> bool:
    """Return whether ``base ** exponent`` may use cheaper ops than `power`.

    Cheaper ops compute a square, a cube, a square root, a reciprocal or a copy. Return False if `op` is not "power" or
    `base` is not a plain `Array`.
    """
    if op != "power" or type(base) is not Array or base.dtype.kind not in "iufc":
        return False
    kinds = (int, float, base.dtype.type) if base.dtype.kind == "f" else (int, float)
    return type(exponent) in kinds and (exponent in SHORT_POWERS or exponent == 3)


def _numpys_options(out: Any, where: Any, dtype: Any, casting: str, signature: Any, sig: Any) -> dict[str, Any]:
    """Return the options of a ufunc call that differ from the defaults. Other libraries may not know all options."""
    options = {k: v for k, v in (("out", out), ("dtype", dtype)) if v is not None}
    options |= {k: v for k, v in (("signature", signature), ("sig", sig)) if v is not ABSENT}
    options |= {} if where is True else {"where": where, "out": out}
    return options if casting == "same_kind" else {**options, "casting": casting}


def check_power(base: Any, exponent: Any) -> None:
    """Raise NumPy's ValueError if an integer is raised to a negative integer.

    Raises OverflowError if the exponent is a Python int below the range of the base's dtype. If the exponent is a weft
    array, its elements are not checked.
    """
    if not isinstance(exponent, int | np.integer | np.ndarray) or np.result_type(exponent).kind != "i":
        return
    kept: Any = base.dtype if isinstance(base, Array) else base if np.isscalar(base) else np.asarray(base)
    # (A negative power of an unsigned integer is a float, except for Python ints.)
    whole = np.result_type(kept, exponent) if not isinstance(exponent, int) else np.result_type(kept)
    if whole.kind in "iu" and type(exponent) is int and exponent < np.iinfo(whole).min:
        raise OverflowError(f"Python integer {exponent} out of bounds for {whole}")
    if whole.kind in "biu" and np.any(np.less(exponent, 0)):
        raise ValueError("Integers to negative integer powers are not allowed.")


# (Stored explicitly, because Python cannot inspect native code.)
_SIGNATURE = inspect.signature(MethodType(unquote_annotations(UFunc.__call__), UFunc))
_SIGNATURE = _SIGNATURE.replace(
    parameters=[
        each.replace(default=None) if each.default is ABSENT else each
        for each in _SIGNATURE.parameters.values()
        if each.name != "others"
    ]
)

UFUNCS: dict[str, UFunc] = {}
for _row in OPS.values():
    if not _row.name.startswith("_") and _row.name not in ("where", "clip", "real", "imag"):
        _made = UFunc(_row)
        _made.__signature__ = _SIGNATURE
        for _name in (_row.name, *_row.aliases):
            UFUNCS[_name] = _made


def find_ufunc(name: str) -> UFunc:
    """Return the ufunc of the op named `name`."""
    return UFUNCS[name]
