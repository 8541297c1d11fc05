"""Substitutes for library functions and number types in Python mode.

In: a Python function. Out: the same code with replaced globals and closure variables. Functions of `math` and `cmath`
have the result dtypes of compiled kernels and raise no domain or range errors. Number types convert as in kernels
(integers wrap, floats saturate). weft's ops and `numpy.where` return scalars instead of arrays without axes. NumPy
functions that create arrays return a `KernelArray`.
Invariant: the code object is the user's own, so breakpoints work. A function without replaced names is returned
unchanged.
"""

from __future__ import annotations

import cmath
import math
import sys
from collections.abc import Callable, Mapping
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from weft.codegen import find_op
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.kernel.language.device_function import DeviceFunction
from weft.dsl.kernel.language.types import ScalarType
from weft.dsl.kernel.library.library_functions import op_in_python
from weft.dsl.kernel.library.number_functions import COMPLEX_FUNCTIONS, OPS, rect_parts
from weft.dsl.kernel.python_mode.argument_conversion import convert, float_dtype
from weft.dsl.kernel.python_mode.simulate_arrays import as_kernel_array
from weft.dsl.kernel.python_mode.simulate_bfloat16 import Brain, beside_brains, seen, wide
from weft.dsl.script.namespace_reads import walk_code


def _kernel_function(name: str) -> Callable[..., Any]:
    """Return a version of a `math` function with the result dtypes of compiled kernels.

    Instead of a domain or range error, the version returns NumPy's result, such as NaN or infinity.
    """
    function = getattr(math, name)
    reference = op_in_python(OPS[name])

    def call(*values: Any) -> Any:
        dtype = float_dtype(values)
        if name == "nextafter" and dtype is not None:
            return np.nextafter(*(convert(value, dtype) for value in values))
        plain = [value.item() if isinstance(value, (np.generic, Brain)) else value for value in values]
        try:
            found = function(*plain)
        except (ValueError, ArithmeticError):
            whole = name == "ldexp"  # whose second argument is an integer
            numbers = [np.asarray(value, None if k and whole else np.float64)[()] for k, value in enumerate(plain)]
            with np.errstate(all="ignore"):
                if len(numbers) > find_op(OPS[name]).arity:  # `log` with a base
                    found = float(np.log(numbers[0]) / np.log(numbers[1]))
                else:
                    found = float(reference(*numbers))
        return found if dtype is None else seen(dtype.type(found))

    call.__name__ = name
    return call


def _whole(function: Callable[[Any], Any]) -> Callable[[Any], int]:
    """Wrap a rounding function such as `numpy.floor`, so that it returns a Python int. Results beyond the range of int64 are clamped to it."""
    return lambda x: int(x) if hasattr(x, "__index__") else int(convert(function(wide(x)), np.dtype(np.int64)))


def _frexp(x: Any) -> tuple[np.float64, int]:
    mantissa, exponent = math.frexp(x)
    return np.float64(mantissa), exponent


def _complex_dtype(values: tuple[Any, ...]) -> np.dtype | None:
    """Return the complex dtype of a function's result, or None if all arguments are Python numbers."""
    found = float_dtype(values)
    return None if found is None else np.dtype(np.complex64 if found in (np.float32, np.complex64) else np.complex128)


def _make_complex(*parts: Any) -> Any:
    dtype = _complex_dtype(parts) if len(parts) > 1 else None
    made = complex(*(wide(part) for part in parts))
    return made if dtype is None else dtype.type(made)


def _complex_function(name: str) -> Callable[..., Any]:
    """Return a version of a `cmath` function with the result dtypes of compiled kernels."""
    function = np.angle if name == "phase" else op_in_python(OPS.get(name, name))

    def call(z: Any, *base: Any) -> Any:
        dtype = _complex_dtype((z,))
        found = function((dtype or np.dtype(np.complex128)).type(z))
        if base:
            return found / call(*base)
        return found.item() if dtype is None else found

    return call


class _Cast(type):
    """Metaclass of substitutes for number types such as `int` in Python mode."""

    real: type

    def __call__(cls, value: Any = 0, *rest: Any) -> Any:
        if cls.real is complex and not isinstance(value, str):
            return _make_complex(value, *rest)
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
    """Return a class that replaces a number type such as `int` in Python mode. NumPy accepts the class as a dtype."""
    return _Cast(kind.__name__, (), {"real": kind, "dtype": np.dtype(kind), "__doc__": kind.__doc__})


def _where(condition: Any, x: Any, y: Any) -> Any:
    # NumPy returns a 0-d array, which += would change in place
    return seen(np.where(condition, *beside_brains((x, y)))[()])


def _creation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper of a NumPy function that creates arrays. The wrapper returns a `KernelArray`."""
    return lambda *arguments, **options: as_kernel_array(function(*arguments, **options))


# functions that create arrays in kernels
_CREATION = "arange array asarray empty empty_like full full_like linspace ones ones_like zeros zeros_like".split()
_BY_NAME = {name: _kernel_function(name) for name in OPS if hasattr(math, name)}
_CASTS = {kind: _cast(kind) for kind in (int, complex, *(np.dtype(code).type for code in "bhilqBHILQefd"))}
_REPLACED: Mapping[Any, Any] = {
    **{getattr(math, n): f for n, f in _BY_NAME.items()},
    **{getattr(cmath, n): _complex_function(n) for n in (*COMPLEX_FUNCTIONS, "log", "phase")},
    **_CASTS,
    **{getattr(np, name): _creation(getattr(np, name)) for name in _CREATION},
    cmath.polar: lambda z: (_complex_function("absolute")(z), _complex_function("phase")(z)),
    cmath.rect: lambda r, phi: _make_complex(*rect_parts(*(x if float_dtype((x,)) else float(x) for x in (r, phi)))),
    np.where: _where,
    math.floor: _whole(np.floor),
    math.ceil: _whole(np.ceil),
    math.trunc: _whole(np.trunc),
    math.frexp: _frexp,
    round: lambda number, ndigits=None: _whole(np.rint)(number) if ndigits is None else round(number, ndigits),
}
_BUILTINS: Mapping[str, Any] = {"int": int, "complex": complex, "round": round}
_VIEWED = ("math", "cmath", "numpy", "weft", "weft.dsl.kernel.language.types")
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
    """Return a Python function that computes the op `name`. If its result would be a 0-d array, the function returns a scalar instead."""
    function = op_in_python(name)

    def call(*operands: Any) -> Any:
        found = np.asarray(function(*operands))[()]
        return found.item() if all(type(x) in (bool, int, float, complex) for x in operands) else seen(found)

    return call


class _Forms:
    """Copies of functions, with substitutes for their global and closure variables."""

    def __init__(self) -> None:
        self.replaced = False
        self._made: dict[FunctionType, FunctionType] = {}
        self._globals: dict[int, dict[str, Any]] = {}

    def function(self, function: FunctionType) -> FunctionType:
        """Return a copy of a function, with substitutes for its global and closure variables."""
        if function in self._made:
            return self._made[function]
        own = function.__globals__
        world = self._globals.setdefault(id(own), dict(own))
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made = FunctionType(function.__code__, world, function.__name__, function.__defaults__, cells or None)
        made.__kwdefaults__ = function.__kwdefaults__
        made.__qualname__ = function.__qualname__
        self._made[function] = made
        for name in (name for code in walk_code(function.__code__) for name in code.co_names):
            if name in own:
                world[name] = self.value(own[name])
            elif name in _BUILTINS:
                world[name] = self.value(_BUILTINS[name])
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


def with_kernel_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """Copy a function for execution in Python, and replace some variables that the copy uses. If nothing is replaced, return the function itself."""
    if not isinstance(function, FunctionType):
        return function
    forms = _Forms()
    made = forms.function(function)
    return made if forms.replaced else function
