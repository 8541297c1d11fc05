"""Tests of the types in tables of other packages."""

from types import ModuleType
from typing import Any

import numpy as np

import weft as wf
from weft.dsl import registrations


class _Table:
    """A table keyed by type, like those of autograd, which do not find subclasses."""

    def __init__(self) -> None:
        self.mappings: dict[type, Any] = {np.ndarray: np.shape}

    def register(self, kind: type, function: Any = None) -> None:
        self.mappings[kind] = function


def test_tables_hold_the_types_of_all_arrays() -> None:
    module: Any = ModuleType("tables")
    module.ArrayBox, module.VSpace = _Table(), _Table()
    registrations.register_box(module)
    registrations.register_vector_space(module)
    x = wf.zeros(20_000) + 1j
    for value in (x, x.real, x.imag, x.sum(), wf.broadcast_to(x, (2, 20_000)), np.zeros(3)):
        assert type(value) in module.VSpace.mappings and (type(value) in module.ArrayBox.mappings), type(value)
        assert module.VSpace.mappings[type(value)](value) == np.shape(value)


class fortran:
    """A function that f2py made: it copies arrays of NumPy, and writes to the memory of others."""

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


class _SuperLU:
    """A factorization, whose methods accept only NumPy's own arrays."""

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
