"""Functions that inspect dtypes, shapes and memory without reading elements.

In: arrays, numbers and dtypes. Out: NumPy's results. NumPy's functions get stand-ins, which have the shapes and dtypes
of the arrays. Invariant: nothing is evaluated, except a 0-d array by `min_scalar_type`, and the operands of a
`broadcast` by its iteration, `iters` and `reset`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, wraps
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from weft.dsl.arrays.array import Array, whole
from weft.dsl.arrays.composed_docstrings import describe_composed
from weft.dsl.arrays.on_host import from_host, to_host
from weft.dsl.immediate.host_values import values_of
from weft.fusion import find_shared

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike


def stand_in(value: Any) -> Any:
    """Replace weft arrays by NumPy stand-ins of the same shape and dtype, which need almost no memory."""
    if isinstance(value, Array):
        return np.broadcast_to(np.zeros((), value.dtype), value.shape)
    if type(value) in (list, tuple):
        return type(value)(map(stand_in, value))
    return value


def of_stand_ins(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a NumPy function that reads only shapes and dtypes.

    The function receives NumPy arrays from `stand_in`, so the wrapper does not evaluate weft arrays.
    """

    @wraps(function)
    def ask(*arguments: Any, **options: Any) -> Any:
        return from_host(function(*stand_in(arguments), **{k: stand_in(v) for k, v in options.items()}))

    ask.__doc__ = describe_composed(function.__name__)
    return ask


def min_scalar_type(a: ArrayLike, /) -> np.dtype:
    """Return the smallest dtype that holds a value, like `numpy.min_scalar_type`.

    For an array with axes, this is the array's dtype. A 0-d array is evaluated.

    Examples
    --------
    >>> wf.min_scalar_type(300)
    dtype('uint16')
    """
    return np.min_scalar_type(stand_in(a) if np.ndim(a) else to_host(a))


def isscalar(element: Any) -> bool:
    """Return whether a value is a scalar, like `numpy.isscalar`.

    A 0-d array is not a scalar.

    Examples
    --------
    >>> wf.isscalar(3.0), wf.isscalar(wf.asarray(3.0))
    (True, False)
    """
    return np.isscalar(element)


def _extent(array: Array, address: int) -> np.ndarray:
    """Return a NumPy array that occupies the same addresses as `array`. The storage of `array` starts at `address`.

    The result serves only to test for shared memory, so its elements must not be read.
    """
    (shape, strides, offset), width = array._view or whole(array._storage), array.itemsize
    interface = {
        "version": 3,
        "data": (address + offset * width, True),
        "shape": shape,
        "strides": tuple(step * width for step in strides),
        "typestr": f"|V{width}",
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def size(a: ArrayLike, axis: Any = None) -> int:
    """Return the number of elements of an array, like `numpy.size`.

    If `axis` is given, return the number of elements along these axes only.

    Examples
    --------
    >>> wf.size([[1, 2, 3], [4, 5, 6]], axis=1)
    3
    """
    lengths = np.shape(stand_in(a))
    return prod(lengths if axis is None else (lengths[k] for k in normalize_axis_tuple(axis, len(lengths))))


def shares_memory(a: ArrayLike, b: ArrayLike, /, max_work: Any = None) -> bool:
    """Return whether two arrays share memory, like `numpy.shares_memory`.

    The result for an array and its copy is False, even if they use the same memory until one of them is written.

    Examples
    --------
    >>> x = wf.arange(6)
    >>> wf.shares_memory(x[::2], x[2:]), wf.shares_memory(x[::2], x[1::2])
    (True, False)
    """
    return _overlap(np.shares_memory, a, b, max_work)


def may_share_memory(a: ArrayLike, b: ArrayLike, /, max_work: Any = None) -> bool:
    """Return whether the address ranges of two arrays overlap, like `numpy.may_share_memory`.

    Examples
    --------
    >>> x = wf.arange(6)
    >>> wf.may_share_memory(x[::2], x[1::2]), wf.may_share_memory(x[:3], x[3:])
    (True, False)
    """
    return _overlap(np.may_share_memory, a, b, max_work)


def _overlap(ask: Callable[..., bool], a: Any, b: Any, max_work: Any) -> bool:
    mine = [each for each in (a, b) if isinstance(each, Array)]
    if len(mine) == 2 and a._storage is not b._storage:
        # (views with another dtype have separate storages)
        if not all(find_shared(each._storage) is not None for each in mine):
            return False
    elif len(mine) == 2 and any(values_of(each) is None for each in mine):
        return ask(*(_extent(each, 1 << 12) for each in mine), max_work)
    if mine and mine[0]._storage.buffer is None and mine[0]._storage.host is None:
        return False  # pending: there is no memory yet
    return ask(*(_in_memory(each) if isinstance(each, Array) else each for each in (a, b)), max_work)


def _in_memory(array: Array) -> Any:
    """Return a NumPy array that lies over the memory of an evaluated array. It serves only to compare memory addresses."""
    values = values_of(array)
    buffer = array._storage.buffer
    return _extent(array, buffer.address) if values is None and buffer is not None else values


class _BroadcastMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return type.__instancecheck__(cls, value) or isinstance(value, np.broadcast)


class broadcast(metaclass=_BroadcastMeta):
    """An object that represents the broadcast of arrays, like `numpy.broadcast`.

    Only iteration, `iters` and `reset` evaluate the arrays.

    Examples
    --------
    >>> wf.broadcast([1, 2, 3], [[4], [5]]).shape
    (2, 3)
    """

    def __init__(self, *arrays: ArrayLike) -> None:
        operands: list[Any] = []
        for each in arrays:  # (a broadcast is replaced by its own operands)
            operands += each._operands if type(each) is broadcast else (each,)
        self._operands = tuple(operands)
        self._shown = np.broadcast(*stand_in(self._operands))
        self.shape: tuple[int, ...] = self._shown.shape
        self.size: int = self._shown.size
        self.numiter: int = self._shown.numiter
        self.nd = self.ndim = len(self.shape)

    @cached_property
    def _elements(self) -> np.broadcast:
        return np.broadcast(*to_host(self._operands))

    @property
    def index(self) -> int:
        """Number of elements that the iteration has returned so far."""
        return self._elements.index if "_elements" in self.__dict__ else 0

    @property
    def iters(self) -> tuple[Any, ...]:
        """Iterators over the elements of the broadcast operands, one per operand."""
        return self._elements.iters

    def reset(self) -> None:
        """Restart the iteration at the first element."""
        self._elements.reset()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        return next(self._elements)
