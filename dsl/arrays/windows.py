"""Views of arrays, with a memo of the views that basic indices select.

In: an array and an index. Out: the index's view or element offset, if the same index was resolved before. Invariant:
the result of a basic index depends only on the array's layout and its storage's shape. The module also defines the
flags, which describe a layout.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from sys import getrefcount
from typing import Any

from weft.dsl.arrays.array import Array, ReadOnly, Scalar, View, expr_of, is_writable, record, whole, wrap
from weft.dsl.immediate.host_values import overlaps
from weft.fusion import contiguous_strides

LIMIT = 20_000

VIEWS: dict[Any, View | int | None] = {}


def key_of(array: Array, index: Any) -> Any:
    """Return the memo key of ``array[index]``, or None if the index is not basic."""
    key: list[Any] = [array._view, array._storage.shape]
    return tuple(key) if _describe(index, key) else None


def _describe(item: Any, key: list[Any], inside: bool = False) -> bool:
    """Append an item of an index to a memo key, or return False if the item is not basic."""
    kind = type(item)
    if kind is int or item is None or item is Ellipsis:
        key += (kind, item)
        return True
    if kind is slice:
        start, stop, step = item.start, item.stop, item.step
        key += (slice, start, stop, step)
        return (
            (start is None or type(start) is int)
            and (stop is None or type(stop) is int)
            and (step is None or type(step) is int)
        )
    if kind is not tuple or inside:
        return False
    key += (tuple, len(item))
    for each in item:
        if not _describe(each, key, True):
            return False
    return True


def look_up_view(key: object) -> Any:
    """Return the memoized view or element offset for a key, or ``...`` on a miss.

    The result None stands for the view of the whole storage.
    """
    return VIEWS.get(key, ...)


def memoize_view(key: object, found: View | int | None) -> None:
    """Memoize the view or element offset for an index under `key`."""
    if len(VIEWS) >= LIMIT:
        VIEWS.clear()
    VIEWS[key] = found


def memoized_view(function: Callable[..., Array]) -> Callable[..., Array]:
    """Decorate a function that returns a view, so that views are memoized by array layout and arguments."""
    name = function.__name__

    @wraps(function)
    def wrapper(array: Any, *given: Any, **options: Any) -> Array:
        if type(array) is not Array or options or not all(map(_is_integers, given)):
            return function(array, *given, **options)
        storage = array._storage
        key = array._view, storage.shape, name, given
        found = look_up_view(key)
        if found is not ...:
            return wrap(storage, found)
        made = function(array, *given)
        if type(made) is Array and made._storage is storage:
            memoize_view(key, made._view)
        return made

    return wrapper


def _is_integers(value: Any) -> bool:
    """Return whether a value is an int or a tuple of ints, where bools do not count as ints."""
    kind = type(value)
    return kind is int or (kind is tuple and all(type(item) is int for item in value))


def window(array: Array, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Array:
    """Return an array over part of the storage of `array`, with the given shape, strides and offset.

    A view of a `Scalar` is the scalar itself if it has no axes, and otherwise a copy, because a scalar is immutable.
    """
    if type(array) is Scalar and not shape:
        return array
    storage = record(expr_of(array))._storage if type(array) is Scalar and shape else array._storage
    kind = ReadOnly if type(array) is ReadOnly else Array
    if not offset and shape == storage.shape and strides == contiguous_strides(shape):
        return wrap(storage, None, kind)
    return wrap(storage, (shape, strides, offset), kind)


def layout(array: Array) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return an array's shape, strides in elements, and offset in its storage."""
    return array._view or whole(array._storage)


def is_c_ordered(array: Array) -> bool:
    """Return whether an array is empty or C-contiguous.

    The strides of axes of length 1 are ignored.
    """
    if array._values is not None:
        return array._values.flags.c_contiguous
    shape, strides, _ = layout(array)
    wanted = contiguous_strides(shape)
    return 0 in shape or all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True))


# -- flags ---------------------------------------------------------------------------------------


# Bits of the flags in NumPy's C interface.
_BITS = {
    "C_CONTIGUOUS": 0x1,
    "F_CONTIGUOUS": 0x2,
    "OWNDATA": 0x4,
    "ALIGNED": 0x100,
    "WRITEABLE": 0x400,
    "WRITEBACKIFCOPY": 0x2000,
}


class Flags(dict):
    """The flags of an array under NumPy's names.

    ``x.flags.writeable = False`` makes the array object `x` read-only.
    """

    def __init__(self, array: Array) -> None:
        values = array._values
        in_order = is_c_ordered(array)
        across = is_c_ordered(array.transpose()) if values is None else values.flags.f_contiguous
        super().__init__(
            C_CONTIGUOUS=in_order,
            F_CONTIGUOUS=across,
            OWNDATA=array._view is None,
            WRITEABLE=is_writable(array) and type(array) is not Scalar,
            ALIGNED=True,
            WRITEBACKIFCOPY=False,
        )
        behaved = self["WRITEABLE"]
        self.__dict__.update(_array=array, contiguous=in_order, forc=in_order or across, fnc=across and not in_order)
        self.__dict__.update(behaved=behaved, carray=behaved and in_order, farray=behaved and across and not in_order)

    @property
    def num(self) -> int:
        """The flags as the bits of an integer, for `np.ctypeslib.ndpointer`."""
        return sum(bit for name, bit in _BITS.items() if self[name])

    def __repr__(self) -> str:
        return "".join(f"  {name} : {value}\n" for name, value in self.items())

    __str__ = __repr__

    def __missing__(self, name: str) -> Any:
        short = {
            "C": "C_CONTIGUOUS", "F": "F_CONTIGUOUS", "O": "OWNDATA", "W": "WRITEABLE", "A": "ALIGNED",
            "X": "WRITEBACKIFCOPY", "CONTIGUOUS": "C_CONTIGUOUS", "FORTRAN": "F_CONTIGUOUS",
        }  # fmt: skip
        if name in short:
            return self[short[name]]
        parts = {
            "FNC": self.fnc,
            "FORC": self.forc,
            "BEHAVED": self.behaved,
            "CARRAY": self.carray,
            "FARRAY": self.farray,
        }
        return parts[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name.upper()]
        except KeyError:
            raise AttributeError(f"there is no flag {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name.upper()] = value

    def __setitem__(self, name: str, value: object) -> None:
        if name not in ("WRITEABLE", "W"):
            raise ValueError(f"flag {name} cannot be set")
        set_flags(self._array, write=bool(value))
        super().__setitem__("WRITEABLE", bool(value))


def set_flags(self: Array, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
    """Make this array object read-only or writable, like `numpy.ndarray.setflags`.

    Views created later inherit this property.
    """
    if write is None or write == is_writable(self) or type(self) is Scalar:
        return
    view = self._view
    if write and (type(self) is not ReadOnly or (view is not None and overlaps(view[0], view[1]))):
        raise ValueError("cannot set WRITEABLE flag to True of this array")
    if write and self._values is not None:
        self._values.flags.writeable = True  # (it is read-only if NumPy's `diagonal` returned it)
    object.__dict__["__class__"].__set__(self, Array if write else ReadOnly)


def has_views(array: Array) -> bool:
    """Return whether other arrays share the storage of an array."""
    storage = array._storage
    if getrefcount(storage) <= _UNSHARED:
        return False
    return any(isinstance(each, Array) and each is not array for each in gc.get_referrers(storage))


# Number of references to a storage without views: from its array, from a variable, and from the call of `getrefcount`.
_UNSHARED = 3
