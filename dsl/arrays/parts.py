"""The real and imaginary parts of complex arrays, as in ``x.real`` and ``x.imag``.

In: a complex array. Out: a `Part`, which records operations like any array. Invariant: a part has the current values of
its complex array, and a write to a part, or to a view of a part, changes the complex array. The elements of a part are
in separate memory, because a storage has a single dtype.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from weft.dsl.arrays.array import Array, ReadOnly, Scalar, expr_of, is_writable, record, start, wrap, write
from weft.dsl.arrays.validation import warn_of_lost_parts
from weft.fusion import Expr, Storage, cast, find_shared, map_


class Part(Array):
    """The real or imaginary part of a complex array.

    The storage of a part is recorded again whenever the complex array may have changed.
    """

    __slots__ = ("_held", "_name", "_owner", "_seen")
    _held: Storage
    _name: str
    _owner: Array
    _seen: tuple[Any, Any, Any]  # state of the owner for which `_held` was recorded

    @property
    def _storage(self) -> Storage:  # type: ignore[override]
        if not self._is_current():
            start()
            self._take()
        return self._held

    @_storage.setter
    def _storage(self, storage: Storage) -> None:
        self._held = storage

    def _take(self) -> None:
        """Record the extraction of this part from the complex array."""
        self._held = record(map_(self._name, [expr_of(self._owner)]))._storage
        self._note()

    def _note(self) -> None:
        owner = self._owner._storage
        self._seen = owner, owner.expr, owner.buffer

    def _is_current(self) -> bool:
        """Return False if the complex array may have changed since this part was recorded, otherwise True."""
        owner = self._owner._storage
        storage, expr, buffer = self._seen
        if owner.buffer is None and owner.host is None:
            return storage is owner and expr is owner.expr
        if self._held.buffer is None and owner.host is None and storage is owner and buffer is owner.buffer:
            return True  # (a pending part holds the memory that it reads)
        if owner.host is not None and find_shared(owner) is not None:
            return False
        return getrefcount(self._owner) <= _ALONE[0] and getrefcount(owner) <= _ALONE[1]

    @property
    def base(self) -> Array:
        owner = self._owner
        return owner if owner.base is None else owner.base

    dtype = property(lambda self: self._held.dtype)  # type: ignore[assignment]
    device = property(lambda self: self._held.device)  # type: ignore[assignment]
    strides = property(lambda self: self._owner.strides)  # type: ignore[assignment]

    def __getitem__(self, key: Any) -> Any:
        return getattr(owner_of(self)[key], self._name)

    def _after_write(self) -> None:
        """Write this part's elements back to the complex array."""
        start()
        owner = self._owner
        # (as in NumPy, a part stays writable if the complex array has become read-only since)
        put_part(wrap(owner._storage, owner._view), self._name, expr_of(wrap(self._held, self._view)))
        self._note()


class ReadOnlyPart(Part, ReadOnly):
    """A read-only part of a complex array."""

    __slots__ = ()


def owner_of(part: Part) -> Array:
    """Return the complex array of which `part` is the real or imaginary part. The result is read-only if `part` is."""
    owner = part._owner
    return wrap(owner._storage, owner._view, ReadOnly) if isinstance(part, ReadOnly) else owner


def _count_alone() -> tuple[int, int]:
    """Measure the reference counts that an array and its storage have when only a `Part` (a view such as `x.real`) refers to the array."""

    class Held:
        def __init__(self) -> None:
            self._owner = object.__new__(Array)
            self._owner._device = self._owner._values = self._owner._view = None
            self._owner._storage = Storage((), None, None)  # type: ignore[arg-type]
            self._seen = self._owner._storage, None, None

        def count(self) -> tuple[int, int]:
            owner = self._owner._storage
            storage, expr, buffer = self._seen
            return getrefcount(self._owner), getrefcount(owner) + (storage is expr) + (buffer is storage)

    return Held().count()


_ALONE = _count_alone()


def take_part(array: Array, name: str) -> Array:
    """Return the part `name` ("real" or "imag") of a complex array. The part of a read-only array is read-only."""
    if type(array) is Scalar:
        start()
        return record(map_(name, [expr_of(array)]))
    made = object.__new__(Part if is_writable(array) else ReadOnlyPart)
    made._device = made._values = made._view = None
    made._owner, made._name = array, name
    start()
    made._take()
    return made


def put_part(array: Array, name: str, new: Expr) -> None:
    """Assign the expression `new` to the part `name` ("real" or "imag") of a complex array."""
    other = map_("imag" if name == "real" else "real", [expr_of(array)])
    warn_of_lost_parts(new.dtype, other.dtype)
    parts = (cast(new, other.dtype), other)
    write(array, map_("_complex", parts if name == "real" else parts[::-1]))
