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
from types import NoneType
from typing import Any
from weakref import ref

from weft.dsl.arrays.array import Array, ReadOnly, Scalar, View, expr_of, is_writable, record, wrap, wrap_view
from weft.dsl.arrays.array import layout as array_layout
from weft.dsl.arrays.foreign_memory import READ_ONLY
from weft.dsl.arrays.parts import Part, ReadOnlyPart, owner_of
from weft.dsl.immediate.host_values import overlaps
from weft.fusion import contiguous_strides

LIMIT = 20_000
_BOUNDS = frozenset({int, NoneType})  # types of the bounds of basic slices

# Memoized views (None for the view of a whole storage) and element offsets of indices.
VIEWS: dict[Any, View | int | None] = {}


def key_of(array: Array, index: Any) -> Any:
    """Return the memo key of ``array[index]``.

    Return None if an item is not an int, None, ``...`` or a slice whose bounds and step are ints or None.
    """
    key: list[Any] = [array._view, array._storage.shape]
    items = (index,)
    if type(index) is tuple:
        key += (tuple, len(index))
        items = index
    for item in items:
        kind = type(item)
        if kind is int or item is None or item is Ellipsis:
            key += (kind, item)
        elif kind is slice:
            key += (slice, item.start, item.stop, item.step)
            if not _BOUNDS.issuperset(map(type, key[-3:])):
                return None
        else:
            return None
    return tuple(key)


def memoize_view(key: object, found: View | int | None) -> None:
    """Memoize, under `key`, the view or the element offset that an index selects."""
    if len(VIEWS) >= LIMIT:
        VIEWS.clear()
    VIEWS[key] = found


def memoized_view(function: Callable[..., Array]) -> Callable[..., Array]:
    """Memoize the views that a function returns, by array layout and integer arguments."""
    name = function.__name__

    @wraps(function)
    def wrapper(array: Any, *given: Any, **options: Any) -> Array:
        if type(array) is not Array or options or not all(map(_is_integers, given)):
            return function(array, *given, **options)
        storage = array._storage
        key = array._view, storage.shape, name, given
        found: Any = VIEWS.get(key, ...)
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

    A view of a `Scalar` is the scalar itself if it has no axes, and otherwise a copy, because a scalar is immutable. A
    view of a `Part` is the same part of a view of the complex array, to whose storage `strides` and `offset` refer.
    """
    if isinstance(array, Part):
        return getattr(window(owner_of(array), shape, strides, offset), array._name)  # type: ignore[no-any-return]
    if type(array) is Scalar and not shape:
        return array
    storage = record(expr_of(array))._storage if type(array) is Scalar and shape else array._storage
    return wrap_view(storage, (shape, strides, offset), ReadOnly if type(array) is ReadOnly else Array)


def layout(array: Array) -> View:
    """Return the layout of an array. For a `Part` (real or imaginary part), return the layout of its complex array.

    The strides and offsets that `window` receives refer to this layout.
    """
    return array_layout(array._owner if isinstance(array, Part) else array)


def is_c_ordered(array: Array) -> bool:
    """Return whether an array is empty or C-contiguous. The strides of axes of length 1 are ignored."""
    if isinstance(array, Part):  # (its elements alternate with those of the other part)
        return array.size < 2
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
_OTHER_NAMES = {
    "C": "C_CONTIGUOUS", "F": "F_CONTIGUOUS", "O": "OWNDATA", "W": "WRITEABLE", "A": "ALIGNED", "X": "WRITEBACKIFCOPY",
    "CONTIGUOUS": "C_CONTIGUOUS", "FORTRAN": "F_CONTIGUOUS", "B": "BEHAVED", "CA": "CARRAY", "FA": "FARRAY",
}  # fmt: skip


class Flags(dict):
    """The flags of an array under NumPy's names. ``x.flags.writeable = False`` makes the array object `x` read-only."""

    def __init__(self, array: Array) -> None:
        values = None if isinstance(array, Part) else array._values
        super().__init__(
            C_CONTIGUOUS=is_c_ordered(array),
            F_CONTIGUOUS=is_c_ordered(array.transpose()) if values is None else values.flags.f_contiguous,
            OWNDATA=array._view is None,
            WRITEABLE=is_writable(array),
            ALIGNED=True,
            WRITEBACKIFCOPY=False,
        )
        self.__dict__["_array"] = array

    @property
    def num(self) -> int:
        """The flags as the bits of an integer, for `np.ctypeslib.ndpointer`."""
        return sum(bit for name, bit in _BITS.items() if self[name])

    def __repr__(self) -> str:
        return "".join(f"  {name} : {value}\n" for name, value in self.items())

    __str__ = __repr__

    def __missing__(self, name: str) -> Any:
        if name in _OTHER_NAMES:
            return self[_OTHER_NAMES[name]]
        in_order, across, behaved = self["C_CONTIGUOUS"], self["F_CONTIGUOUS"], self["WRITEABLE"]
        combined = {"FNC": across and not in_order, "FORC": in_order or across, "BEHAVED": behaved}
        combined |= {"CARRAY": behaved and in_order, "FARRAY": behaved and across and not in_order}
        return combined[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name.upper()]
        except KeyError:
            raise AttributeError(f"there is no flag {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        if name != "writeable":
            raise AttributeError(f"there is no flag {name!r} that can be set")
        self["W"] = value

    def __setitem__(self, name: str, value: object) -> None:
        if name not in ("WRITEABLE", "W"):
            raise KeyError(f"there is no flag {name!r} that can be set")
        set_flags(self._array, write=bool(value))
        super().__setitem__("WRITEABLE", bool(value))


def set_flags(self: Array, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
    """Make this array object read-only or writable, like `numpy.ndarray.setflags`.

    Views created later inherit this property. A view can become writable only if the array that owns the memory is
    writable. `align` and `uic` have no effect.
    """
    if write is None or write == is_writable(self) or type(self) is Scalar:
        return
    is_part = isinstance(self, Part)
    owner, mine = self._owner if is_part else self, ref(self)  # (an object has only one such reference)
    view, storage = owner._view, owner._storage
    is_fixed = not isinstance(self, ReadOnly) or READ_ONLY.get(storage, mine) is not mine
    if write and (is_fixed or (view is not None and overlaps(view[0], view[1]))):
        raise ValueError("cannot set WRITEABLE flag to True of this array")
    if is_part:
        _set_class(self, Part if write else ReadOnlyPart)
        return
    if write:
        READ_ONLY.pop(storage, None)
    elif view is None:
        READ_ONLY[storage] = mine
    if write and self._values is not None:
        self._values.flags.writeable = True  # (it is read-only if NumPy's `diagonal` returned it)
    _set_class(self, Array if write else ReadOnly)


# (`Array.__class__` is a property)
_set_class = object.__dict__["__class__"].__set__


def as_read_only(view: Array) -> Array:
    """Return a read-only version of a new view. The caller must hold the only reference to the view."""
    if isinstance(view, Part):
        _set_class(view, ReadOnlyPart)
        return view
    return wrap(view._storage, view._view, ReadOnly)


def has_views(array: Array) -> bool:
    """Return whether other arrays share the storage of an array."""
    storage = array._storage
    if getrefcount(storage) <= _UNSHARED:
        return False
    return any(isinstance(each, Array) and each is not array for each in gc.get_referrers(storage))


# Number of references to a storage without views: from its array, from a variable, and from the call of `getrefcount`.
_UNSHARED = 3
