"""`Array`'s methods and properties that record: each is a function of this package under NumPy's name."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dsl import creation, indexing, linear, manipulation, reductions
from weft.dsl.array import Array, Scalar, accepts, as_operand, expr_of, record, scalar, start, wrap, write
from weft.dsl.ufunc import UFUNCS
from weft.fusion import cast, constant, current_epoch, map_, pending


def astype(
    self: Array, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Array:
    """The array in another dtype. Out of range floats saturate in integers and NaN becomes 0."""
    kind = creation.as_dtype(dtype)
    if not np.can_cast(self.dtype, kind, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {self.dtype!r} to {kind!r} according to the rule {casting!r}")
    if kind == self.dtype:
        return copy_of(self) if copy else self
    location = start()
    return record(cast(expr_of(self), kind, location))


def copy_of(self: Array, order: str = "C") -> Array:
    """A copy; memory is shared until one of the two is written to."""
    start()
    epoch = current_epoch(self.device)
    copied = pending(expr_of(self), epoch)
    return scalar(copied) if isinstance(self, Scalar) else wrap(copied)


def fill(self: Array, value: Any) -> None:
    """Set every element."""
    start()
    node, weak = as_operand(value)
    write(self, constant(value, self.dtype) if weak is not None else node)


def _shape_arguments(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape


def reshape(self: Array, *shape: Any, order: str = "C", copy: bool | None = None) -> Array:
    """The same elements by another shape."""
    return manipulation.reshape(self, _shape_arguments(shape), order, copy=copy)


def transpose(self: Array, *axes: Any) -> Array:
    """Axes permuted."""
    return manipulation.transpose(self, None if not axes else _shape_arguments(axes))


def flatten(self: Array, order: str = "C") -> Array:
    """A copy in one axis."""
    return copy_of(manipulation.ravel(self, order))


def ravel(self: Array, order: str = "C") -> Array:
    """The elements in one axis."""
    return manipulation.ravel(self, order)


def _part(name: str) -> property:
    def get(self: Array) -> Array:
        if self.dtype.kind != "c":
            return self if name == "real" else creation.zeros_like(self)
        start()
        return record(map_(name, [expr_of(self)]))

    def put(self: Array, value: Any) -> None:
        start()
        if self.dtype.kind != "c":
            if name == "imag":
                raise TypeError("array does not have imaginary part to set")
            write(self, as_operand(value)[0])
            return
        own = expr_of(self)
        other = map_("imag" if name == "real" else "real", [own])
        new = as_operand(value)[0]
        real, imag = (new, other) if name == "real" else (other, new)
        write(
            self,
            map_("add", [cast(real, self.dtype), map_("multiply", [cast(imag, self.dtype), constant(1j, self.dtype)])]),
        )

    return property(get, put, doc=f"The {name} part (a copy, unlike NumPy's view).")


def _round(self: Any, decimals: int = 0, out: Any = None) -> Any:
    """Rounded to a number of decimals, ties to even."""
    from weft.dsl.ufunc import as_array, deliver

    array = as_array(self)
    start()
    node = expr_of(array)
    if array.dtype.kind in "biu" and decimals >= 0:
        return record(node) if out is None else deliver("positive", node, out)
    if decimals == 0:
        return deliver("rint", map_("rint", [node]), out)
    factor = constant(10.0 ** abs(decimals), node.dtype)
    first, second = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    rounded = map_(second, [map_("rint", [map_(first, [node, factor])]), factor])
    return deliver("rint", cast(rounded, node.dtype), out)


def sort(self: Array, axis: int = -1, kind: Any = None, order: Any = None, **options: Any) -> None:
    """Sort in place (on the host)."""
    values = np.array(self.numpy())
    values.sort(axis)
    write(self, expr_of(creation.asarray(values)))


def _via_numpy(name: str) -> Any:
    def method(self: Array, *arguments: Any, **options: Any) -> Any:
        from weft.dsl.numpy_face import call_numpy

        return call_numpy(getattr(np, name), (self, *arguments), options)

    method.__name__ = name
    method.__doc__ = f"As `numpy.{name}`, on the host."
    return method


class Flat:
    """`Array.flat`: the elements in C order, for reading and writing."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Any:
        return manipulation.ravel(self._array)[key]  # type: ignore[index]

    def __setitem__(self, key: Any, value: Any) -> None:
        flat = manipulation.reshape(self._array, (-1,))
        if flat._storage is self._array._storage:
            flat[key] = value  # type: ignore[index]
            return
        flat[key] = value  # type: ignore[index]
        write(self._array, expr_of(manipulation.reshape(flat, self._array.shape)))

    def __iter__(self) -> Any:
        return iter(manipulation.ravel(self._array))

    def __len__(self) -> int:
        return self._array.size


def _set_flat(self: Array, value: Any) -> None:
    Flat(self)[...] = value


class Flags(dict):  # type: ignore[type-arg]
    """`Array.flags`: what NumPy's flags would say."""

    def __getattr__(self, name: str) -> Any:
        return self[name.upper()]


def _flags(self: Array) -> Flags:
    return Flags(
        C_CONTIGUOUS=manipulation.lies_in_order(self),
        F_CONTIGUOUS=manipulation.lies_in_order(self.T),  # type: ignore[attr-defined]
        OWNDATA=self._view is None,
        WRITEABLE=True,
        ALIGNED=True,
    )


METHODS: dict[str, Any] = {
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "__matmul__": lambda a, b: linear.matmul(a, b) if accepts(b) else NotImplemented,
    "__rmatmul__": lambda a, b: linear.matmul(b, a) if accepts(b) else NotImplemented,
    "astype": astype,
    "copy": copy_of,
    "fill": fill,
    "reshape": reshape,
    "transpose": transpose,
    "flatten": flatten,
    "ravel": ravel,
    "round": _round,
    "sort": sort,
    "take": indexing.take,
    "nonzero": indexing.nonzero,
    "dot": linear.dot,
    "clip": manipulation.clip,
    "conj": lambda self: UFUNCS["conjugate"](self),
    "conjugate": lambda self: UFUNCS["conjugate"](self),
    "to": creation.to_device,
    "swapaxes": manipulation.swapaxes,
    "squeeze": manipulation.squeeze,
    "repeat": manipulation.repeat,
    "diagonal": manipulation.diagonal,
    "trace": manipulation.trace,
    "sum": reductions.sum,
    "prod": reductions.prod_,
    "min": reductions.min,
    "max": reductions.max,
    "mean": reductions.mean,
    "var": reductions.var,
    "std": reductions.std,
    "any": reductions.any,
    "all": reductions.all,
    "argmin": reductions.argmin,
    "argmax": reductions.argmax,
    "cumsum": reductions.cumsum,
    "cumprod": reductions.cumprod,
    "ptp": reductions.ptp,
    "argsort": _via_numpy("argsort"),
    "argpartition": _via_numpy("argpartition"),
    "searchsorted": _via_numpy("searchsorted"),
    "compress": lambda self, condition, axis=None, out=None: _via_numpy("compress")(condition, self, axis, out),
    "choose": _via_numpy("choose"),
    "put": lambda self, indices, values, mode="raise": Flat(self).__setitem__(np.asarray(indices), values),
    "T": property(lambda self: manipulation.transpose(self)),
    "mT": property(lambda self: manipulation.swapaxes(self, -1, -2)),
    "real": _part("real"),
    "imag": _part("imag"),
    "flat": property(Flat, _set_flat),
    "flags": property(_flags),
}


def _round_number(self: Scalar, ndigits: int | None = None) -> Any:
    """Python's `round`."""
    return round(self.item()) if ndigits is None else _round(self, ndigits)


def _imatmul(self: Array, other: Any) -> Array:
    if not accepts(other):
        return NotImplemented
    write(self, expr_of(linear.matmul(self, other)))
    return self


def install() -> None:
    """Give `Array` its methods."""
    for name, method in METHODS.items():
        setattr(Array, name, method)
    Array.__imatmul__ = _imatmul  # type: ignore[attr-defined]
    Scalar.__round__ = _round_number  # type: ignore[attr-defined]
    Array.__array_function__ = _array_function  # type: ignore[attr-defined]


def _array_function(self: Array, function: Any, types: Any, arguments: Any, options: Any) -> Any:
    """NumPy's function protocol: a NumPy function called on a weft array is weft's where it has one."""
    from weft.dsl import numpy_face

    ours = numpy_face.find_own(function)
    return ours(*arguments, **options) if ours is not None else numpy_face.call_numpy(function, arguments, options)


round_ = _round
install()
