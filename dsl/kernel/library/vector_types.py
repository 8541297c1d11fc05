"""Vector types such as ``float32x4``, which is also available as ``float4``.

This file creates the 40 classes, for 10 number types with 1 to 4 lanes, from one table. Components are plain values,
so that vectors work on the host and in kernels that run as Python. The compiler knows the classes by their `dtype`
and `lanes`. Invariant: a component has its vector's dtype after any assignment.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from weft.dsl.kernel.python_mode.argument_conversion import convert
from weft.runtime import counted

COMPONENTS = "xyzw"

# scalar type -> CUDA C's prefixes
BASES: dict[str, tuple[str, ...]] = {
    "int8": ("char",),
    "int16": ("short",),
    "int32": ("int",),
    "int64": ("longlong",),
    "uint8": ("uchar",),
    "uint16": ("ushort",),
    "uint32": ("uint",),
    "uint64": ("ulonglong",),
    "float32": ("float",),
    "float64": ("double",),
}
_LONG = {np.dtype("l").name: "long", np.dtype("L").name: "ulong"}  # the width of C's long on this platform


class Vector:
    """A vector of 1 to 4 numbers of one dtype, in the components `x`, `y`, `z` and `w`.

    Parameters
    ----------
    *parts : scalar or Vector
        The components. The total number of components must be the number of lanes of the vector. Each component is
        converted to the dtype of the vector.

    Notes
    -----
    The operators ``+ - * / // % ** & | ^ << >>`` operate on components. The other operand is a vector with the same
    number of lanes, or a number. Types are promoted as in NumPy 2. TypeError is raised if there is no vector type of the
    result's dtype, such as float16. ``==`` returns whether all components are equal.
    """

    __slots__ = ("_values",)
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # a NumPy scalar on the left defers to the vector

    dtype: ClassVar[np.dtype]
    lanes: ClassVar[int]
    aliases: ClassVar[tuple[str, ...]]

    def __init__(self, *parts: Any) -> None:
        values: list[Any] = []
        for part in parts:
            values.extend(part if isinstance(part, Vector) else (part,))
        if len(values) != self.lanes:
            raise TypeError(f"{type(self).__name__} takes {counted(self.lanes, 'component')}, not {len(values)}")
        self._values = [_component(self, value) for value in values]

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(self._values))

    def __len__(self) -> int:
        return self.lanes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vector) or other.lanes != self.lanes:
            return NotImplemented
        return all(bool(a == b) for a, b in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(str(value) for value in self)})"

    def __reduce__(self) -> tuple[type[Vector], tuple[Any, ...]]:
        return type(self), tuple(self._values)


def _component(vector: Vector, value: object) -> Any:
    if not isinstance(value, (bool, int, float, np.number, np.bool_)) and not hasattr(value, "__index__"):
        raise TypeError(f"a component of {type(vector).__name__} is a number, not {type(value).__name__}")
    with np.errstate(all="ignore"):
        return convert(value, vector.dtype)


def _component_property(lane: int) -> property:
    def read(self: Vector) -> Any:
        return self._values[lane]

    def write(self: Vector, value: object) -> None:
        self._values[lane] = _component(self, value)

    return property(read, write, doc=f"Component {lane}.")


def _by_component(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Apply a function by component to two vectors, or to a vector and a number."""
    lanes = {side.lanes for side in (left, right) if isinstance(side, Vector)}
    if len(lanes) != 1:
        raise TypeError(f"{type(left).__name__} and {type(right).__name__} have different numbers of lanes")
    (count,) = lanes
    sides = [side if isinstance(side, Vector) else (side,) * count for side in (left, right)]
    with np.errstate(all="ignore"):
        results = [np.asarray(function(a, b))[()] for a, b in zip(*sides, strict=True)]
    return vector_type(results[0].dtype, count)(*results)


def _binary(function: Callable[[Any, Any], Any], reverse: bool) -> Callable[[Vector, Any], Any]:
    def method(self: Vector, other: object) -> Any:
        if not isinstance(other, (Vector, bool, int, float, np.number, np.bool_)):
            return NotImplemented
        return _by_component(function, other, self) if reverse else _by_component(function, self, other)

    return method


def _unary(function: Callable[[Any], Any]) -> Callable[[Vector], Any]:
    def method(self: Vector) -> Any:
        with np.errstate(all="ignore"):
            return type(self)(*(function(value) for value in self))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift"):
    _function = getattr(operator, _name)
    setattr(Vector, f"__{_name.rstrip('_')}__", _binary(_function, False))
    setattr(Vector, f"__r{_name.rstrip('_')}__", _binary(_function, True))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Vector, f"__{_name}__", _unary(getattr(operator, _name)))


def _make_types() -> dict[str, type[Vector]]:
    made: dict[str, type[Vector]] = {}
    details = (Vector.__doc__ or "").partition("\n")[2]
    for base, prefixes in BASES.items():
        for lanes in range(1, 5):
            prefixes_here = (*prefixes, _LONG[base]) if base in _LONG else prefixes
            body: dict[str, Any] = {
                "__slots__": (),
                "__module__": __name__,
                "__doc__": f"A vector of {counted(lanes, f'{base} number')}.\n{details}",
                "dtype": np.dtype(base),
                "lanes": lanes,
                "aliases": tuple(f"{prefix}{lanes}" for prefix in prefixes_here),
            }
            body |= {COMPONENTS[lane]: _component_property(lane) for lane in range(lanes)}
            made[f"{base}x{lanes}"] = type(f"{base}x{lanes}", (Vector,), body)
    return made


# name -> class: the 40 types, and their CUDA C names.
VECTOR_TYPES: dict[str, type[Vector]] = _make_types()
VECTOR_ALIASES: dict[str, type[Vector]] = {alias: kind for kind in VECTOR_TYPES.values() for alias in kind.aliases}
_BY_SHAPE = {(kind.dtype, kind.lanes): kind for kind in VECTOR_TYPES.values()}


def vector_type(dtype: Any, lanes: int) -> type[Vector]:
    """Return the vector type with `lanes` components of a dtype, or raise TypeError if there is none."""
    kind = _BY_SHAPE.get((np.dtype(dtype), lanes))
    if kind is None:
        raise TypeError(f"there is no vector type of {lanes} {np.dtype(dtype)}; there are 1 to 4 of {', '.join(BASES)}")
    return kind


globals().update(VECTOR_TYPES | VECTOR_ALIASES)
