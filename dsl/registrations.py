"""Registration of weft arrays with packages such as einops, torch, JAX and Numba.

`dsl.import_hooks` calls the functions of this module with the module of a package. Invariant: a package without the
expected table or function is left unchanged. The package then treats weft arrays like any unknown type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import CO_VARARGS
from types import ModuleType
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, ReadOnly, Scalar, convert
from weft.dsl.arrays.on_host import Wrapper
from weft.dsl.arrays.parts import Part, ReadOnlyPart

_TYPES = Array, Scalar, ReadOnly, Part, ReadOnlyPart  # (lookups in tables of types do not consider subclasses)
_ALL = frozenset(_TYPES)
_HOLDERS = _ALL | {list, tuple}
_INSPECTED = 100  # number of items of a list or tuple that are searched for arrays


def register_backend(module: ModuleType) -> None:
    """Register an einops backend for weft arrays, based on einops's NumPy backend."""
    base = getattr(module, "NumpyBackend", None)
    if base is None:
        return

    class WeftBackend(base):  # type: ignore[misc, valid-type]
        """einops backend for weft arrays."""

        framework_name = "weft"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Array)

        def from_numpy(self, x: Any) -> Any:
            return convert(x)

        def to_numpy(self, x: Any) -> Any:
            return x.numpy()

    # einops finds backends among the subclasses of its base class
    module._weft_backend = WeftBackend  # type: ignore[attr-defined]


def register_collate(module: ModuleType) -> None:
    """Let torch's data loaders batch weft arrays in the same way as NumPy arrays."""
    table = getattr(module, "default_collate_fn_map", {})
    arrays = table.get(np.ndarray)
    numbers = next((f for kinds, f in table.items() if isinstance(kinds, tuple) and np.number in kinds), None)
    if arrays is None:
        return

    def collate(batch: Any, **options: Any) -> Any:
        return arrays([array.numpy().copy() for array in batch], **options)

    def collate_scalars(batch: Any, **options: Any) -> Any:
        return numbers([scalar.numpy()[()] for scalar in batch], **options)  # type: ignore[misc]

    table[Array] = collate
    if numbers is not None:
        table[Scalar] = collate_scalars


def register_box(module: ModuleType) -> None:
    """Let autograd trace weft arrays in the same way as NumPy arrays."""
    box: Any = getattr(module, "ArrayBox", None)
    if hasattr(box, "register"):
        for kind in _TYPES:
            box.register(kind)


def register_vector_space(module: ModuleType) -> None:
    """Let autograd add up gradients that are weft arrays."""
    space: Any = getattr(module, "VSpace", None)
    if np.ndarray in getattr(space, "mappings", ()):
        for kind in _TYPES:
            space.register(kind, lambda x: space.mappings[np.ndarray](np.asarray(x)))


def _through_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *rest, **options: function(np.asarray(x), *rest, **options)


def register_abstract_arrays(module: ModuleType) -> None:
    """Let JAX trace functions of weft arrays in the same way as functions of NumPy arrays."""
    types = getattr(getattr(module, "core", None), "pytype_aval_mappings", None)
    values: Any = getattr(module, "dtypes", None)  # a module
    if (
        not isinstance(types, dict)
        or np.ndarray not in types
        or not hasattr(values, "register_canonicalize_value_handler")
    ):
        return
    for kind in _TYPES:
        types[kind] = _through_numpy(types[np.ndarray])
        values.register_canonicalize_value_handler(kind, _through_numpy(values.canonicalize_value))


def register_shards(module: ModuleType) -> None:
    """Let JAX copy weft arrays to JAX devices."""
    table = getattr(module, "shard_arg_handlers", None)
    handler = table.get(np.ndarray) if isinstance(table, dict) else None
    if table is not None and handler is not None:
        table |= dict.fromkeys(_TYPES, lambda xs, *rest: handler([np.asarray(x) for x in xs], *rest))


def _exchange(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace the value of an attribute, if it exists, by ``make(value)``."""
    if (found := getattr(owner, name, None)) is not None:
        setattr(owner, name, make(found))


def register_replace(module: ModuleType) -> None:
    """Let bottleneck's `replace` accept weft arrays."""

    def replacing_in_place(replace: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(replace)
        def replace_in_place(a: Any, *rest: Any, **options: Any) -> Any:
            if not isinstance(a, Array):
                return replace(a, *rest, **options)
            host = np.asarray(a)
            if host.flags.writeable:
                replace(host, *rest, **options)
            else:  # (the C code would write to a copy of an array on another device)
                host = host.copy()
                replace(host, *rest, **options)
                a[...] = host
            return a

        return replace_in_place

    _exchange(module, "replace", replacing_in_place)


_COMPILED = frozenset({"builtin_function_or_method", "cython_function_or_method", "fortran"})


def register_functions(module: ModuleType) -> None:
    """Wrap a compiled module's functions so that they receive weft arrays as NumPy arrays.

    The functions of f2py modules would also accept weft arrays themselves, as objects that share their memory with
    NumPy. However, they may overwrite the memory of such an object in cases in which they copy a NumPy array.
    """
    for name, found in list(vars(module).items()):
        if type(found).__name__ in _COMPILED:
            setattr(module, name, _WithNumpy(found))


def register_opencv(module: Any) -> None:
    """Let OpenCV's functions, methods and attributes take weft arrays."""
    for name, found in list(vars(module).items()):
        kind = type(found).__name__
        if name.startswith("__") and name != "__init__":
            continue
        if kind == "builtin_function_or_method":
            setattr(module, name, _WithNumpy(found, writes=True))
        elif kind in ("method_descriptor", "wrapper_descriptor"):
            setattr(module, name, _calling_with_numpy(found, writes=True))
        elif kind == "getset_descriptor":
            setattr(module, name, property(found.__get__, _calling_with_numpy(found.__set__)))
        elif isinstance(found, type) or (isinstance(found, ModuleType) and found.__name__.startswith("cv2.")):
            register_opencv(found)


_CALLS = {
    "h5py._hl.dataset": "Dataset.__setitem__ Dataset.read_direct Dataset.write_direct",
    "numba.stencils.stencil": "StencilFunc.__call__",
    "polars": "DataFrame.__init__ Series.__init__ from_numpy",
    "scipy.sparse._coo": "_coo_base._matmul_multivector",  # (SciPy views the product as the type of the second factor)
    "torch": "from_numpy",
}


def register_calls(module: ModuleType) -> None:
    """Let the functions and methods of a module that are listed in `_CALLS` take weft arrays."""
    for path in _CALLS[module.__name__].split():
        owner, _, name = path.rpartition(".")
        _exchange(getattr(module, owner, None) if owner else module, name, _calling_with_numpy)


def register_constants(module: ModuleType) -> None:
    """Register the names of weft's `numpy` namespace with Numba, so that Numba compiles functions that use them like functions that use NumPy."""
    for name in ("get_global_value", "get_closure_value"):
        _exchange(getattr(module, "Interpreter", None), name, _reading_numpy)


def _reading_numpy(read: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a Numba method that looks up variables, so that it returns NumPy's objects instead of weft's."""

    @wraps(read)
    def read_numpy(self: Any, key: Any) -> Any:
        value = read(self, key)
        if isinstance(value, Wrapper):
            return value.wrapped
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "numpy":
            return sys.modules[value.__name__]
        return np.asarray(value) if isinstance(value, Array) else value

    return read_numpy


def register_dispatcher(module: ModuleType) -> None:
    """Let functions that Numba has compiled accept weft arrays.

    Calls without weft arrays are as fast as before. If an argument is a weft array, Numba's C code finds no compiled
    function, asks for a compilation, and calls the result, which passes NumPy arrays instead. Only functions whose
    compilation is disabled need a wrapper.
    """
    kind, unknown = getattr(module, "Dispatcher", None), getattr(getattr(module, "types", None), "pyobject", None)
    names = "typeof_pyval", "_compile_for_args", "disable_compile"
    type_of, compile_for, disable = (getattr(kind, name, None) for name in names)
    if kind is None or unknown is None or type_of is None or compile_for is None or disable is None:
        return

    @wraps(type_of)
    def type_of_value(self: Any, value: Any) -> Any:
        return unknown if _has_own(value) else type_of(self, value)

    @wraps(compile_for)
    def compile_for_arguments(self: Any, *arguments: Any, **options: Any) -> Any:
        if not _has_own((*arguments, *options.values())):
            return compile_for(self, *arguments, **options)

        def call(*arguments: Any, **options: Any) -> Any:
            given = [value for value in arguments if type(value).__name__ != "OmittedArg"]  # (a default value)
            if self.py_func.__code__.co_flags & CO_VARARGS:
                given[-1:] = given[-1]
            return _call_with_numpy(self, given, options)

        return call

    @wraps(disable)
    def disable_compilation(self: Any, value: bool = True) -> None:
        disable(self, value)
        if value and type(self).__call__ is kind.__call__:
            self.__class__ = _calling_class(type(self))  # type: ignore[arg-type]

    for name, function in zip(names, (type_of_value, compile_for_arguments, disable_compilation), strict=True):
        setattr(kind, name, function)


@cache
def _calling_class(kind: type) -> type:
    """Return a subclass of `kind` whose objects accept weft arrays when called."""
    names = {"__call__": _calling_with_numpy(kind.__call__), "__module__": kind.__module__}  # type: ignore[operator]
    # (the objects are pickled as objects of `kind`)
    return type(kind.__name__, (kind,), {**names, "_reduce_class": classmethod(lambda cls: kind)})


def _calling_with_numpy(call: Callable[..., Any], writes: bool = False) -> Callable[..., Any]:
    """Wrap a function so that it receives weft arrays as NumPy arrays (see `_call_with_numpy`)."""

    @wraps(call)
    def call_with_numpy(*arguments: Any, **options: Any) -> Any:
        if not _has_own((*arguments, *options.values())):
            return call(*arguments, **options)
        return _call_with_numpy(call, arguments, options, writes)

    return call_with_numpy


def register_factors(module: ModuleType) -> None:
    """Let SciPy's sparse factorizations solve equations with weft arrays."""
    _exchange(module, "gstrf", lambda factorize: lambda *rest, **options: _Factors(factorize(*rest, **options)))


class _Wrapped:
    """A wrapper that forwards attribute access to an object from another package."""

    def __init__(self, wrapped: Any, **names: Any) -> None:
        module = getattr(wrapped, "__module__", None)
        self.__dict__.update(names, _wrapped=wrapped, __doc__=wrapped.__doc__, __module__=module)

    __class__ = property(lambda self: type(self._wrapped))  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._wrapped, name, value)

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __reduce__(self) -> Any:
        return self._wrapped.__reduce__()


class _WithNumpy(_Wrapped):
    """A wrapper that passes weft arrays to a function as NumPy arrays (see `_call_with_numpy`)."""

    writes = False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        values = (*arguments, *options.values())
        if _HOLDERS.isdisjoint(map(type, values)) or not _has_own(values):
            return self._wrapped(*arguments, **options)
        return _call_with_numpy(self._wrapped, arguments, options, self.writes)


def _call_with_numpy(
    function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any], writes: bool = False
) -> Any:
    """Call a function with NumPy arrays over the memory of weft arrays.

    If the function returns one of these NumPy arrays, alone or in a tuple, return the weft array instead. `writes`
    states that the function may write to its arguments, and returns those to which it writes. It then receives copies
    of arrays on a GPU.
    """
    taken: list[tuple[np.ndarray, Array, bool]] = []
    result = function(
        *[_take(value, taken, writes) for value in arguments],
        **{name: _take(value, taken, writes) for name, value in options.items()},
    )
    if type(result) is tuple:
        return tuple([_give_back(item, taken) for item in result])
    return _give_back(result, taken)


def _has_own(value: Any) -> bool:
    """Return whether a value is a weft array, or a list or tuple that has a weft array among its first items."""
    return type(value) in _ALL or (isinstance(value, (list, tuple)) and any(map(_has_own, value[:_INSPECTED])))


def _take(value: Any, taken: list[tuple[np.ndarray, Array, bool]], writes: bool = False) -> Any:
    if isinstance(value, (list, tuple)) and _has_own(value):
        items = [_take(item, taken, writes) for item in value]
        return items if isinstance(value, list) else type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not isinstance(value, Array):
        return value
    host = np.asarray(value)
    if isinstance(value, Scalar):
        return host[()]
    copied = writes and not host.flags.writeable  # (an array on a GPU)
    taken.append((host.copy() if copied else host, value, copied))
    return taken[-1][0]


def _give_back(result: Any, taken: Sequence[tuple[np.ndarray, Array, bool]]) -> Any:
    """If `result` is a NumPy array that was passed to a function instead of a weft array, return the weft array. Otherwise, return `result`.

    `taken` lists the arrays that were passed. If the NumPy array is a copy, its elements are first written back to the weft array.
    """
    for host, value, copied in taken:
        if host is result:
            if copied:
                value[...] = host
            return value
    return result


class _Factors(_Wrapped):
    """A wrapper of a sparse matrix factorization that solves equations with weft arrays."""

    @property
    def solve(self) -> Any:
        return _WithNumpy(self._wrapped.solve)


def register_namespace(module: ModuleType) -> None:
    """Let array-api-compat return weft's namespace for weft arrays mixed with NumPy arrays.

    The package and its copies raise an error for arrays of different libraries. Weft's functions also accept NumPy arrays.
    """
    find = getattr(module, "array_namespace", None)
    if find is None:
        return

    @wraps(find)
    def array_namespace(*xs: Any, **options: Any) -> Any:
        if any(isinstance(x, Array) for x in xs):
            xs = tuple([x for x in xs if not isinstance(x, (np.ndarray, np.generic))])
        return find(*xs, **options)

    for each in [module, *sys.modules.values()]:  # (other modules may have imported the function, under either name)
        for name in ("array_namespace", "get_namespace"):
            if getattr(each, "__dict__", {}).get(name) is find:
                setattr(each, name, array_namespace)
