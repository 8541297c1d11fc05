"""Substitutes for library functions and number types in kernels that run in Python mode.

In: a Python function. Out: the same code with replaced globals. Functions of math keep their operand's dtype and do not
raise errors. Number types convert as in kernels (integers wrap, floats saturate). Scalar functions of NumPy and weft
return scalars. Invariant: the code object is the user's own, so breakpoints work. A function without replaced names is
returned unchanged.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from weft.codegen import dtype_kind, find_op
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.kernel.language.device_function import DeviceFunction
from weft.dsl.kernel.language.types import ScalarType
from weft.dsl.kernel.library.library_functions import op_in_python
from weft.dsl.kernel.library.number_functions import OPS
from weft.dsl.kernel.python_mode.argument_conversion import common_dtype, convert
from weft.dsl.kernel.python_mode.simulate_bfloat16 import Brain, beside_brains, seen, wide


def _float_dtype(values: tuple[Any, ...]) -> np.dtype | None:
    """Return the result dtype of a floating-point function, or None if all arguments are Python numbers."""
    if not any(isinstance(value, (np.generic, Brain)) for value in values):
        return None
    found = common_dtype(*values)
    return found if dtype_kind(found) == "f" else np.result_type(found, np.float16)


def _kernel_function(name: str) -> Callable[..., Any]:
    """Return a version of a `math` function that has the result dtypes of compiled kernels and raises no errors.

    Where the function would raise an error, the result is NumPy's, such as NaN or infinity.
    """
    function = getattr(math, name)
    reference = op_in_python(OPS[name])

    def call(*values: Any) -> Any:
        dtype = _float_dtype(values)
        if name == "nextafter" and dtype is not None:
            return np.nextafter(*(convert(value, dtype) for value in values))
        plain = [value.item() if isinstance(value, (np.generic, Brain)) else value for value in values]
        try:
            found = function(*plain)
        except (ValueError, ArithmeticError):
            numbers = [np.asarray(value, np.float64 if isinstance(value, float) else None)[()] for value in plain]
            with np.errstate(all="ignore"):
                if len(numbers) > find_op(OPS[name]).arity:  # `log` with a base
                    found = float(np.log(numbers[0]) / np.log(numbers[1]))
                else:
                    found = float(reference(*numbers))
        return found if dtype is None else seen(dtype.type(found))

    call.__name__ = name
    return call


class _Cast(type):
    """Metaclass of substitutes for number types such as `int` in Python mode."""

    real: type

    def __call__(cls, value: Any = 0, *rest: Any) -> Any:
        if rest or isinstance(value, (str, np.ndarray)):
            return cls.real(value, *rest)
        if cls.real is not int:
            return seen(convert(value, np.dtype(cls.real)))
        value = wide(value)
        return int(convert(value, np.dtype(np.int64)) if isinstance(value, (float, np.floating)) else value)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.real)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.real, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.real

    def __hash__(cls) -> int:
        return hash(cls.real)


def _cast(kind: type) -> type:
    """Return a substitute for a number type such as `int`; NumPy accepts the substitute as a dtype."""
    return _Cast(kind.__name__, (), {"real": kind, "dtype": np.dtype(kind), "__doc__": kind.__doc__})


def _where(condition: Any, x: Any, y: Any) -> Any:
    # NumPy returns a 0-d array, which += would change in place
    return seen(np.where(condition, *beside_brains((x, y)))[()])


_BY_NAME = {name: _kernel_function(name) for name in OPS if hasattr(math, name)}
_CASTS = {kind: _cast(kind) for kind in (int, *(np.dtype(code).type for code in "bhilqBHILQefd"))}
_REPLACED: Mapping[Any, Any] = {**{getattr(math, n): f for n, f in _BY_NAME.items()}, **_CASTS, np.where: _where}
_VIEWED = ("math", "numpy", "weft", "weft.dsl.kernel.language.types")
_FOREIGN = frozenset(sys.stdlib_module_names) | {"numpy", "scipy"}


class _View:
    """A substitute for a module in Python mode, with some of its members replaced."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        other = replacement(found)
        # later accesses find the attribute without this function
        setattr(self, name, found if other is None else other)
        return found if other is None else other


def replacement(held: object) -> Any:
    """Return the object that replaces `held` in Python mode, or None if `held` is not replaced."""
    match held:
        case ModuleType(__name__=name) if name in _VIEWED:
            return _View(held)
        case UFunc():
            return _op_function(held.definition.name)
        case ScalarType():
            return replacement(held.dtype.type)
        case type(__name__="bfloat16") if issubclass(held, np.generic):
            return _CASTS.setdefault(held, _cast(held))
        case _:
            try:
                return _REPLACED.get(held)
            except TypeError:  # unhashable objects are not replaced
                return None


def _op_function(name: str) -> Callable[..., Any]:
    found = op_in_python(name)
    return lambda *operands: seen(np.asarray(found(*operands))[()])


class _Forms:
    """Copies of functions for Python mode, in which global variables are replaced by substitutes."""

    def __init__(self) -> None:
        self.replaced = False
        self._made: dict[FunctionType, FunctionType] = {}
        self._globals: dict[int, dict[str, Any]] = {}

    def function(self, function: FunctionType) -> FunctionType:
        """Return a copy of a function in which globals and closure variables are replaced by substitutes."""
        if function in self._made:
            return self._made[function]
        own = function.__globals__
        world = self._globals.setdefault(id(own), dict(own))
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made = FunctionType(function.__code__, world, function.__name__, function.__defaults__, cells or None)
        made.__kwdefaults__ = function.__kwdefaults__
        made.__qualname__ = function.__qualname__
        self._made[function] = made
        for name in _names(function.__code__):
            if name in own:
                world[name] = self.value(own[name])
            elif name == "int":
                world[name] = self.value(int)
        for cell, held in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.value(held.cell_contents)
            except ValueError:  # an unset name stays unset
                continue
        return made

    def value(self, held: object) -> Any:
        """Return the substitute for a variable's value, or the value itself if it has no substitute."""
        if isinstance(held, DeviceFunction):
            return self.function(held.function)
        if isinstance(held, FunctionType):
            foreign = (held.__module__ or "").partition(".")[0] in _FOREIGN
            return held if foreign else self.function(held)
        found = replacement(held)
        self.replaced = self.replaced or found is not None
        return held if found is None else found


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes in a function and its nested functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def with_kernel_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a function for Python mode, or the function itself if nothing is replaced."""
    if not isinstance(function, FunctionType):
        return function
    forms = _Forms()
    made = forms.function(function)
    return made if forms.replaced else function
