"""The `numpy` namespace of a script that runs on weft.

In: a NumPy module. Out: a module with the same names. Invariant: small arrays are NumPy's own.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from math import inf, prod
from typing import Any

import numpy as np

import weft.runtime as runtime
from weft.dsl.arrays.array import Array
from weft.dsl.arrays.on_host import ALONE, WrappedFunction, adopt_array, call_numpy, from_host_if_large, to_host
from weft.dsl.arrays.random_arrays import draw_array, note_draw
from weft.dsl.functions.own_names import OWN_IN
from weft.dsl.immediate.at_call import MISSED, to_host_if_small
from weft.dsl.immediate.host_values import values_of
from weft.dsl.script.kinds import MemoryEffect
from weft.dsl.script.numpy_face import plain_names
from weft.dsl.script.script_function import ScriptFunction
from weft.runtime import FIXED, IMMEDIATE, LEAST

# Returns whether a frame executes a script's code rather than a library's (set by `redirect.py`).
is_program: Callable[[types.FrameType], bool] = lambda frame: False  # noqa: E731


@cache
def script_module(name: str) -> types.ModuleType:
    """Return a replacement for a NumPy module. Scripts that run on weft use it instead of the original module.

    The result is a plain module, because the interpreter finds attributes of plain modules fastest.
    """
    wrapped = import_module(name)
    own: Mapping[str, Any] = OWN_IN.get(name, {})
    made = types.ModuleType(wrapped.__name__, wrapped.__doc__)
    names = made.__dict__
    names.update({key: getattr(wrapped, key) for key in ("__file__", "__path__") if hasattr(wrapped, key)})

    def find(key: str) -> Any:
        theirs = getattr(wrapped, key)
        module, first = _public_name(theirs, wrapped, key)
        if (module, first) == (name, key):
            found = _find(name, key, theirs, own)
        else:
            found = getattr(made if module == name else script_module(module), first)
        names[key] = found
        return found

    names.update(__getattr__=find, __dir__=lambda: dir(wrapped))
    return made


def _public_name(theirs: Any, wrapped: types.ModuleType, key: str) -> tuple[str, str]:
    """Return the name of a NumPy function's public module, and the function's name in this module.

    Examples are `np.conjugate` for `np.conj`, `np.ma.array` for `np.ma.core.array`, and `np.broadcast_to` for the
    function in a private module.
    """
    name, first = wrapped.__name__, getattr(theirs, "__name__", key)
    if callable(theirs) and not isinstance(theirs, type):
        parts = name.split(".")
        modules = [".".join(parts[:k]) for k in range(1, len(parts))]
        own = str(getattr(theirs, "__module__", ""))
        modules += [own] if "._" in name and not own.startswith(f"{name}.") else []
        for module in (*modules, name):
            # (`getattr(np, "bytes")` would issue a warning)
            if getattr(sys.modules.get(module), "__dict__", {}).get(first) is theirs:
                return module, first
    return name, key


@cache
def find_all_names() -> None:
    """Look up every name in the main modules that replace NumPy in scripts. Their dictionaries are then complete, so that ``vars(np)`` works."""
    for module in ("numpy", "numpy.fft", "numpy.linalg", "numpy.random"):
        made = script_module(module)
        known = frozenset(vars(import_module(module)))
        for name in known:
            getattr(made, name)
        vars(made)["__getattr__"] = _find_others(known, vars(made))


def _find_others(known: frozenset[str], names: dict[str, Any]) -> Callable[[str], Any]:
    """Wrap a module's ``__getattr__``.

    For names in `known` that the module's dictionary contains, the wrapper raises AttributeError.

    After ``globals().update(vars(np))``, the program itself has this ``__getattr__``, and `import *` looks up ``__all__``
    with it.
    """
    find: Callable[[str], Any] = names["__getattr__"]

    def find_others(name: str) -> Any:
        if name in known and name in names:
            raise AttributeError(name)
        return find(name)

    return find_others


def _find(module: str, name: str, theirs: Any, own: Mapping[str, Any]) -> Any:
    """Return the object that a script gets for a name in a NumPy module. This is NumPy's own object `theirs`, or a replacement from weft."""
    if isinstance(theirs, types.ModuleType):
        return script_module(theirs.__name__) if theirs.__name__.startswith("numpy") else theirs
    if name in plain_names(module) or module == "numpy.typing":
        return theirs
    if module == "numpy.random" and name in _GENERATORS:
        return _generators()[name]
    if isinstance(theirs, type):
        return own.get(name, theirs)  # (only `ndarray`)
    if isinstance(theirs, np.ndarray):
        return from_host_if_large(theirs)
    if name in ("mgrid", "ogrid", "r_", "c_"):
        return Indexed(theirs)
    if not callable(theirs) or isinstance(theirs, (np.dtype, np.generic)):
        return theirs
    ours = own[name] if name in own else WrappedFunction(theirs, from_host_if_large)
    draws = module == "numpy.random" and name != "shuffle"
    return ScriptFunction(theirs, ours, MemoryEffect.DRAW if draws else None)


class Indexed:
    """Wrapper that makes `numpy.mgrid` and similar objects return large arrays as weft arrays."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getitem__(self, key: object) -> Any:
        if isinstance(key, str):  # (a string contains names of the caller's variables)
            caller = sys._getframe(1)
            return np.bmat(key, caller.f_globals, caller.f_locals)
        if (given := to_host_if_small(key, [], IMMEDIATE[FIXED])) is not MISSED:
            key = given
        found = self._wrapped[key]
        alone = type(found) is np.ndarray and sys.getrefcount(found) == ALONE
        return adopt_array(found, from_host_if_large) if alone else from_host_if_large(found)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


# -- random numbers -------------------------------------------------------------------------------------


def _drawn(arguments: tuple[Any, ...], options: dict[str, Any]) -> float:
    """Return the number of values that a generator's method draws, or infinity if it is unknown."""
    size = options.get("size", arguments[-1] if arguments else 1)
    if type(size) is int:
        return size
    return prod(size) if type(size) is tuple and set(map(type, size)) == {int} else inf


_NUMBERS = frozenset({int, float})


# Methods that write to an argument, which may be passed by position.
_WRITING = frozenset({"permuted", "random", "standard_exponential", "standard_gamma", "standard_normal"})


def _drawing(base: type, name: str) -> Any:
    """Return a random generator's method for scripts, which returns large results as weft arrays."""
    draw = getattr(base, name)
    has_native = base is np.random.Generator
    last_is_size = name not in ("rand", "randn")  # (if the arguments are numbers)

    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        found = None
        if last_is_size and not options and _NUMBERS.issuperset(map(type, arguments)):
            size = arguments[-1] if arguments else 0
            if type(size) is float or size < LEAST:
                found = draw(self, *arguments)
                if type(found) is not np.ndarray or size * size <= IMMEDIATE[FIXED]:
                    return found
        if found is None and has_native and (size := _drawn(arguments, options)) >= LEAST and name in runtime.DRAWN:
            many = size > IMMEDIATE[FIXED] and is_program(sys._getframe(1))
            if many and (array := draw_array(self, name, arguments, options)) is not None:
                return array
            found = runtime.draw_many(self, name, arguments, options)
        if found is None and any(isinstance(value, Array) for value in (*arguments, options.get("out"))):
            given = MISSED if options or name in _WRITING else to_host_if_small(arguments, [], IMMEDIATE[FIXED])
            if given is MISSED:
                return call_numpy(types.MethodType(draw, self), arguments, options, from_host_if_large)
            found = draw(self, *given)
        if found is None:
            found = draw(self, *arguments, **options)
        if type(found) is np.ndarray:
            size = found.size
            if size * size > IMMEDIATE[FIXED] and is_program(sys._getframe(1)):
                made = (
                    adopt_array(found, from_host_if_large)
                    if sys.getrefcount(found) == ALONE
                    else from_host_if_large(found)
                )
                if isinstance(made, Array) and values_of(made) is None:
                    note_draw(made.device, name, made.nbytes)
                return made
        return found

    def shuffle(self: Any, *arguments: Any, **options: Any) -> None:
        if arguments and type(arguments[0]) is np.ndarray:
            return draw(self, *arguments, **options)  # type: ignore[no-any-return]
        call_numpy(types.MethodType(draw, self), arguments, options)

    method = shuffle if name == "shuffle" else method
    method.__name__, method.__doc__ = name, draw.__doc__
    return method


def _make_generator(base: type, draws: str) -> type:
    """Return a subclass of a NumPy generator class for scripts."""

    class Meta(type(base)):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, base)

    members = {name: _drawing(base, name) for name in draws.split() if hasattr(base, name)}
    if base is np.random.Generator:
        members["bytes"] = lambda self, length: runtime.draw_bytes(self, length)
    return Meta(base.__name__, (base,), {**members, "__module__": base.__module__, "__doc__": base.__doc__})


_DISTRIBUTIONS = (
    "beta binomial chisquare dirichlet exponential f gamma geometric gumbel hypergeometric laplace logistic lognormal logseries "
    "multinomial multivariate_hypergeometric multivariate_normal negative_binomial noncentral_chisquare noncentral_f normal "
    "pareto poisson power rayleigh standard_cauchy standard_exponential standard_gamma standard_normal standard_t triangular "
    "uniform vonmises wald weibull zipf choice permutation permuted shuffle random integers rand randn randint random_sample "
    "random_integers tomaxint bytes"
)


_GENERATORS = frozenset({"default_rng", "Generator", "RandomState"})


@cache
def _generators() -> dict[str, Any]:
    """Return a dictionary with weft's versions of `default_rng`, `Generator` and `RandomState` from `numpy.random`."""
    generator: Any = _make_generator(np.random.Generator, _DISTRIBUTIONS)

    def default_rng(seed: Any = None) -> Any:
        """Return a random generator, like `numpy.random.default_rng`."""
        made = np.random.default_rng(to_host(seed))
        return made if made is seed else generator(made.bit_generator)

    state = _make_generator(np.random.RandomState, _DISTRIBUTIONS)
    return {"default_rng": default_rng, "Generator": generator, "RandomState": state}
