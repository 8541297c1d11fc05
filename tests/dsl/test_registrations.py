"""Tests of weft's entries in the type tables and dispatchers of other packages."""

from collections import namedtuple
from inspect import CO_VARARGS
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl import registrations
from weft.dsl.script.script_namespace import script_module


class _Table:
    """A table of functions by type, like those of autograd. An entry for a type does not apply to subclasses."""

    def __init__(self) -> None:
        self.mappings: dict[type, Any] = {np.ndarray: np.shape}

    def register(self, kind: type, function: Any = None) -> None:
        self.mappings[kind] = function


def test_tables_hold_the_types_of_all_arrays() -> None:
    module: Any = ModuleType("tables")
    module.ArrayBox, module.VSpace = _Table(), _Table()
    registrations.register_box(module)
    registrations.register_vector_space(module)
    module.shard_arg_handlers = {np.ndarray: lambda xs: [type(x) for x in xs]}
    registrations.register_shards(module)
    x = wf.zeros(20_000) + 1j
    stretched = wf.broadcast_to(x, (2, 20_000))
    for value in (x, x.real, x.imag, x.sum(), stretched, stretched.real, np.zeros(3)):
        assert module.shard_arg_handlers[type(value)]([value]) == [np.ndarray]
        assert type(value) in module.VSpace.mappings and (type(value) in module.ArrayBox.mappings), type(value)
        assert module.VSpace.mappings[type(value)](value) == np.shape(value)


def test_packages_without_the_expected_tables_are_left_unchanged() -> None:
    module: Any = ModuleType("tables")
    module.ArrayBox = module.VSpace = object()
    for name in ("backend", "collate", "box", "vector_space", "abstract_arrays", "shards"):
        for each in (module, ModuleType("empty")):
            before = dict(vars(each))
            getattr(registrations, f"register_{name}")(each)
            assert vars(each) == before, name


class fortran:
    """A stand-in for functions made by f2py. It copies a NumPy array, but overwrites the memory of any other kind of array, such as weft's."""

    typecode = "d"

    def __call__(self, x: Any, scale: float = 1.0, out: Any = None) -> Any:
        values = x.copy() if type(x) is np.ndarray else np.asarray(x)
        values = out if out is not None else values
        values *= scale
        return values


def test_compiled_functions_take_weft_arrays_as_numpys() -> None:
    module: Any = ModuleType("_fblas")
    module.dscal, module.other = fortran(), np.sum
    registrations.register_functions(module)
    assert module.other is np.sum and module.dscal.typecode == "d"
    module.dscal.module_name = "fblas"  # (as SciPy's `get_blas_funcs` does)
    assert module.dscal.module_name == "fblas"
    x = wf.arange(4.0)
    assert type(module.dscal(x, scale=2.0)) is np.ndarray
    assert module.dscal(x=x, scale=2.0).tolist() == [0.0, 2.0, 4.0, 6.0]
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert module.dscal(x, 3.0, out=x) is x and x.tolist() == [0.0, 3.0, 6.0, 9.0]


def test_coo_matrices_are_multiplied_by_weft_arrays() -> None:
    class COO:
        """A stand-in for a sparse matrix of SciPy. Its product with an array has the type of that array."""

        def _matmul_multivector(self, other: Any) -> Any:
            return np.add(other, 1).view(type=type(other))

    module: Any = ModuleType("scipy.sparse._coo")
    registrations.register_calls(module)  # (another version of SciPy)
    module._coo_base = COO
    registrations.register_calls(module)
    for other in (np.ones((2, 3)), wf.ones((2, 3)), wf.ones((2, 20_000))):
        found = COO()._matmul_multivector(other)
        assert type(found) is np.ndarray and found.shape == other.shape and (found == 2).all()


class builtin_function_or_method:
    """A stand-in for OpenCV's functions, which accept only NumPy arrays.

    It writes to `image`, and returns that array.
    """

    def __call__(self, image: Any, marks: Any = (), level: Any = 1) -> Any:
        assert all(type(x) is np.ndarray for x in (image, *marks)) and isinstance(level, (int, np.integer))
        image += level
        return (True, image) if marks else image


def test_opencv_writes_to_weft_arrays() -> None:
    class Filter:
        state = property()

    class method_descriptor:
        def __get__(self, owner: Any, kind: Any = None) -> Any:
            return self if owner is None else lambda image: builtin_function_or_method()(image)

        def __call__(self, owner: Any, image: Any) -> Any:
            return builtin_function_or_method()(image)

    Filter.apply = method_descriptor()  # type: ignore[attr-defined]
    module, inner = ModuleType("cv2"), ModuleType("cv2.inner")
    module.__dict__.update(circle=builtin_function_or_method(), inner=inner, Filter=Filter, other=np)
    inner.fill = builtin_function_or_method()  # type: ignore[attr-defined]
    registrations.register_opencv(module)
    for size in (6, 70_000):
        x = wf.arange(size)
        assert module.circle(x) is x and x[-1] == size
        done, image = inner.fill(x, marks=[x[1:], np.zeros(2)], level=x[:1].sum())  # type: ignore[attr-defined]
        assert done is True and image is x and x[0] == 2
        assert Filter().apply(x) is x and x[0] == 3  # type: ignore[attr-defined]
        assert type(module.circle(np.arange(3))) is np.ndarray


def test_opencv_writes_to_arrays_of_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wf.arange(6)
    copy = x.numpy().copy()
    copy.flags.writeable = False
    monkeypatch.setattr(registrations, "np", SimpleNamespace(asarray=lambda value: copy))
    module: Any = ModuleType("cv2")
    module.circle = builtin_function_or_method()
    registrations.register_opencv(module)
    result = module.circle(x)
    monkeypatch.undo()
    assert result is x and x.tolist() == [1, 2, 3, 4, 5, 6] and copy[0] == 0


class _SuperLU:
    """A stand-in for SciPy's sparse LU factorization, which accepts only NumPy's own arrays."""

    def __init__(self, *_: Any, nnz: int = 3) -> None:
        self.nnz = nnz

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        if type(rhs) is not np.ndarray:
            raise TypeError("argument 1 must be numpy.ndarray")
        return rhs / 2


def test_sparse_factorizations_solve_for_weft_arrays() -> None:
    module: Any = ModuleType("_superlu")
    registrations.register_factors(module)  # (another version of SciPy)
    module.gstrf = _SuperLU
    registrations.register_factors(module)
    factors = module.gstrf(nnz=5)
    assert isinstance(factors, _SuperLU) and factors.nnz == 5 and "_SuperLU" in repr(factors)
    assert factors.solve(wf.arange(3.0)).tolist() == factors.solve(np.arange(3.0), trans="T").tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("method", ["get_global_value", "get_closure_value"])
def test_numba_compiles_the_functions_and_modules_of_numpy(method: str) -> None:
    def read(self: Any, key: Any) -> Any:
        return key

    module: Any = ModuleType("interpreter")
    module.Interpreter = type("Interpreter", (), {"get_global_value": read, "get_closure_value": read})
    registrations.register_constants(module)
    read_value = getattr(module.Interpreter(), method)
    script = script_module("numpy")
    assert read_value(script) is np and read_value(script.linalg) is np.linalg
    assert read_value(script.sin) is np.sin and read_value(script.linalg.norm) is np.linalg.norm
    assert read_value(script.float32) is np.float32 and read_value(3) == 3
    constant = read_value(wf.arange(3.0))
    assert type(constant) is np.ndarray and constant.tolist() == [0, 1, 2]


class OmittedArg:
    """A marker for an argument that was not passed, as in Numba."""


def dispatcher_of(function: Any) -> Any:
    """Return a stand-in for Numba's dispatcher of a function. Numba's dispatchers are implemented in C."""

    class Dispatcher:
        py_func = staticmethod(function)
        compiles = True

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            code = function.__code__
            count, names = code.co_argcount, code.co_varnames
            given = [*arguments[:count], *[options.get(name, OmittedArg()) for name in names[len(arguments) : count]]]
            given += [arguments[count:]] if code.co_flags & CO_VARARGS else []
            if any(self.typeof_pyval(value) == "pyobject" for value in given) and self.compiles:
                return self._compile_for_args(*given)(*given)
            return self._compile_for_args(*given)

        def typeof_pyval(self, value: Any) -> str:
            return type(value).__name__

        def _compile_for_args(self, *given: Any) -> Any:
            given = tuple([value for value in given if type(value) is not OmittedArg])
            return function(*given[:-1], *given[-1]) if function.__code__.co_flags & CO_VARARGS else function(*given)

        def disable_compile(self, value: bool = True) -> None:
            self.compiles = not value

    module: Any = ModuleType("dispatcher")
    module.Dispatcher, module.types = Dispatcher, SimpleNamespace(pyobject="pyobject")
    registrations.register_dispatcher(module)
    return Dispatcher()


@pytest.mark.parametrize("locked", [False, True])
def test_functions_compiled_by_numba_get_numpy_arrays(locked: bool) -> None:
    Pair = namedtuple("Pair", "a b")

    def write(pair: Any, scale: float = 2.0, *others: Any) -> Any:
        assert type(pair) is Pair and all(type(x) is np.ndarray for x in (pair.a, *others))
        pair.a[0] = scale
        return pair.a if not others else others[0]

    def write_array(values: Any, scale: float = 2.0) -> Any:
        assert type(values) is np.ndarray
        values[0] = scale
        return values

    x = wf.arange(20_000.0) + 1
    by_pair, by_array = dispatcher_of(write), dispatcher_of(write_array)
    if locked:
        by_pair.disable_compile()
        by_array.disable_compile()
        assert type(by_array).__name__ == "Dispatcher"
    assert by_array(x) is x and x[0] == 2
    assert by_array(x, scale=5.0) is x and x[0] == 5
    assert by_array(np.ones(3)).tolist() == [2, 1, 1]
    by_pair(Pair(x, 1))
    assert x[0] == 2
    assert by_pair(Pair(x, 1), 7.0, x.real, np.ones(3)) is x and x[0] == 7
