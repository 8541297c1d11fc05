"""Versions of NumPy's modules for weft arrays.

A name refers to weft's own function if there is one. Constants, dtypes and most classes are NumPy's. Classes whose
objects compute arrays, such as `poly1d`, are wrapped. Any other function is NumPy's, called on the host: weft arrays
among its arguments are evaluated, arrays among its results become weft arrays, and its writes to arguments are written
back.
"""

from __future__ import annotations

import types
from abc import ABCMeta
from functools import cache, wraps
from importlib import import_module
from typing import Any

import numpy as np

from weft.dsl.arrays import shared_arrays
from weft.dsl.arrays.array import Array, ReadOnly, Scalar
from weft.dsl.arrays.foreign import OWN_TYPES
from weft.dsl.arrays.on_host import WrappedFunction, WrappedType, from_host, keep_byte_order
from weft.dsl.arrays.parts import Part, ReadOnlyPart
from weft.dsl.functions.own_names import OWN, OWN_IN
from weft.runtime import default_device

_METHODS = types.MethodDescriptorType, types.WrapperDescriptorType


class _NdarrayMeta(ABCMeta):  # (a class may derive from both an abstract class and `numpy.ndarray`)
    def __new__(mcls, name: str, bases: tuple[type, ...], members: dict[str, Any], **options: Any) -> Any:
        """Create a class. If a base is weft's substitute for `numpy.ndarray`, replace this base by `numpy.ndarray`."""
        if not any(type(base) is mcls for base in bases):
            return super().__new__(mcls, name, bases, members, **options)
        real = tuple(np.ndarray if type(base) is mcls else base for base in bases)
        return types.new_class(name, real, options, lambda names: names.update(members))

    def __getattribute__(cls, name: str) -> Any:
        """Return an attribute of the class. Most methods are wrapped, and also accept weft arrays."""
        found = type.__getattribute__(cls, name)
        # (NumPy compares its protocols by identity)
        ours = getattr(Array, name, None) if isinstance(found, _METHODS) and not name.startswith("__array") else None
        if not callable(ours):
            return found

        @wraps(found)
        def method(self: Any, *arguments: Any, **options: Any) -> Any:
            return (ours if isinstance(self, Array) else found)(self, *arguments, **options)

        return method

    def __repr__(cls) -> str:
        return repr(np.ndarray)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, (Array, np.ndarray)) and type(value) is not Scalar

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, (Array, np.ndarray))

    def __eq__(cls, other: object) -> bool:  # ``type(x) == np.ndarray``
        return other is cls or (cls is ndarray and other in (Array, Part, ReadOnly, ReadOnlyPart, np.ndarray))

    def __hash__(cls) -> int:
        return hash(np.ndarray)  # (for tables of types, and for `functools.singledispatch`, which reads `x.__class__`)


class ndarray(np.ndarray, metaclass=_NdarrayMeta):
    """Substitute for `numpy.ndarray` in scripts. Both NumPy arrays and weft arrays are its instances.

    The substitute is a subclass of NumPy's class only because NumPy's ``x.view(ndarray)`` requires a subclass.
    Results of operations on such views are NumPy's own arrays.
    """

    def __new__(
        cls,
        shape: Any,
        dtype: Any = float,
        buffer: Any = None,
        offset: int = 0,
        strides: Any = None,
        order: str | None = None,
    ) -> Any:
        """Return an uninitialized array or, with `buffer`, an array of the buffer's elements.

        On the CPU, the array shares the memory of the buffer."""
        if cls is not ndarray:
            return np.ndarray.__new__(cls, shape, dtype, buffer, offset, strides, order)  # type: ignore[arg-type]
        if buffer is None:
            return OWN["empty"](shape, dtype, order)
        held = shared_arrays.exported(buffer) if isinstance(buffer, Array) else buffer
        values = np.ndarray(shape, dtype, held, offset, strides, order)  # type: ignore[arg-type]
        if default_device().name != "cpu" or not values.size:
            return keep_byte_order(values)
        shared = shared_arrays.import_memory(values)
        return values if shared is None else shared  # (a copy would not see the writes of others)

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()


OWN_TYPES.add(ndarray)


class NumpyModule(types.ModuleType):
    """A NumPy module whose functions take and return weft arrays."""

    def __init__(self, name: str) -> None:
        wrapped = import_module(name)
        super().__init__(wrapped.__name__, wrapped.__doc__)
        plain = vars(wrapped) if name == "numpy.typing" else plain_names(name)
        copied = {"__file__", "__path__", *plain} & set(dir(wrapped))
        self.__dict__.update({key: getattr(wrapped, key) for key in copied})
        self.__dict__.update(_wrapped=wrapped, _own=OWN_IN.get(name, {}))

    def __getattr__(self, name: str) -> Any:
        try:
            found = self._own[name] if name in self._own else wrap_name(getattr(self._wrapped, name))
        except AttributeError as error:
            text, module = str(error), self._wrapped.__name__
            if text.startswith("module "):  # (NumPy's messages for names that it has removed differ)
                text = f"module {module.replace('numpy', 'weft', 1)!r} has no attribute {name!r}, and NumPy has none"
            raise AttributeError(text, name=name, obj=self) from None
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._wrapped), *self._own})


# Classes whose objects compute arrays.
_WRAPPED_TYPES = frozenset(
    {"numpy.vectorize", "numpy.poly1d", "numpy.random._generator.Generator", "numpy.random.mtrand.RandomState"}
)


def wrap_name(found: object) -> Any:
    """Return weft's version of a member of a NumPy module, such as a wrapped function."""
    if isinstance(found, types.ModuleType):
        return submodule(found.__name__) if found.__name__.startswith("numpy") else found
    if isinstance(found, type):
        is_series = found.__module__.startswith("numpy.polynomial.")  # (such as Polynomial and Chebyshev)
        return WrappedType(found) if is_series or f"{found.__module__}.{found.__name__}" in _WRAPPED_TYPES else found
    if isinstance(found, np.ndarray):
        return from_host(found)
    if isinstance(found, (np.ufunc, types.FunctionType, types.BuiltinFunctionType, types.MethodType)) or (
        callable(found) and not isinstance(found, (np.dtype, np.generic))
    ):
        return WrappedFunction(found)
    return found


# Names that are NumPy's own: settings, functions whose results are NumPy's objects over the argument's memory, and `bmat`,
# which reads variables of the frame that calls it.
_SETTINGS = frozenset({"errstate", "seterr", "geterr", "set_printoptions", "get_printoptions", "finfo", "iinfo"})
_PLAIN = {"numpy": _SETTINGS | {"asmatrix", "bmat"}, "numpy.ma": frozenset({"array", "asarray", "asanyarray"})}


def plain_names(module: str) -> frozenset[str]:
    """Return the names in a NumPy module that are not replaced in programs on weft."""
    return _PLAIN.get(module, _SETTINGS)


@cache
def submodule(name: str) -> NumpyModule:
    """Return weft's version of `numpy` or of one of its submodules."""
    return NumpyModule(name)


NUMPY = submodule("numpy")
