"""Tests that weft's functions and operators treat operands of other libraries as NumPy does."""

from __future__ import annotations

import datetime
import operator
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.foreign import has_foreign, is_foreign
from weft.runtime import override

SUBCLASSES = """
np.sqrt(m) * m
np.dot(m, m)
np.add(mat, m)
np.add(mat, m, out=mat)
np.add.reduce(m)
mat * m
m * mat
mat @ m
m @ mat
mat + m
mat == m
np.sum(ma)
np.mean(ma, axis=0)
np.multiply(arr, ma)
np.concatenate([arr, ma])
arr * ma
ma * arr
arr ** ma
np.sqrt(ma)
""".strip().splitlines()

PANDAS = """
np.mean(df.a)
np.sum(s)
np.abs(df).sum()
np.exp(s)
np.add(s, arr)
np.add(arr, s)
np.add.reduce(df.b)
np.maximum(arr, s)
np.where(s > 1, s, 0)
np.clip(s, 0, 2)
np.cumsum(s)
np.isnan(s)
np.median(df.b)
np.dot(df.b, arr)
np.asarray(s) * 2
np.array(df)
np.shape(df)
arr + s
s - arr
arr - s
arr ** s
2 ** s
arr < s
s == arr
arr.dot(s)
s.map(np.sqrt)
df.apply(np.sum)
df.agg(np.mean)
df.groupby([1, 1, 2]).agg(np.sum)
df.assign(c=arr)
pd.Series(arr).mean()
pd.DataFrame({"x": arr, "y": arr * 2})
""".strip().splitlines()

UNITS = """
np.multiply(arr, q)
arr * q
q * arr
arr * unit
q + Q(arr, "m")
Q(arr, "m").to("km")
np.sum(q)
np.sqrt(q)
np.power(q, 2)
np.concatenate([q, q])
np.max(q)
np.linspace(Q(0, "m"), Q(1, "m"), 5)
np.trapezoid(q, arr)
np.full_like(q, 2 * unit)
""".strip().splitlines()

LABELLED = """
np.sin(d)
np.sum(d)
np.mean(d, axis=0)
np.add(arr, d)
d * arr
arr * d
arr ** d
xr.DataArray(arr, dims="x").mean()
xr.DataArray(arr, dims="x") + xr.DataArray(arr, dims="x")
""".strip().splitlines()

BLOCKED = """
np.sum(dk)
np.exp(dk)
np.add(arr, dk)
np.concatenate([dk, dk])
arr * dk
dk * arr
arr ** dk
""".strip().splitlines()

SPARSE = """
sm @ arr
arr @ sm
sa @ arr
sa * arr
arr @ sa
np.sqrt(sm)
""".strip().splitlines()


def compare(program: str, names: dict[str, Any]) -> None:
    found = []
    for xp in (np, wf):
        given = {"np": xp, "arr": xp.asarray([1.0, 2.0, 3.0]), "mat": xp.asarray([[1.0, 2.0], [3.0, 4.0]])}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(eval(program, names | given))
    theirs, ours = found
    if is_foreign(theirs):
        assert type(ours) is type(theirs), program
        assert str(getattr(ours, "units", "")) == str(getattr(theirs, "units", ""))
    for convert in ("magnitude", "compute", "toarray", "filled"):
        if hasattr(theirs, convert):
            method = getattr(theirs, convert), getattr(ours, convert)
            theirs, ours = (each() if callable(each) else each for each in method)
    np.testing.assert_allclose(np.asarray(ours, float), np.asarray(theirs, float), err_msg=program)


@pytest.fixture(params=[0, 16384], autouse=True)
def _tiers(request: pytest.FixtureRequest) -> Any:
    with override(immediate=request.param):
        yield


@pytest.mark.parametrize("program", SUBCLASSES)
def test_subclasses_of_ndarray(program: str) -> None:
    m = np.asmatrix([[1.0, 2.0], [3.0, 4.0]])
    compare(program, {"m": m, "ma": np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])})


@pytest.mark.parametrize("program", PANDAS)
def test_pandas(program: str) -> None:
    pd = pytest.importorskip("pandas")
    df = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [-4.0, 5.0, 6.0]})
    compare(program, {"pd": pd, "df": df, "s": df.a})


@pytest.mark.parametrize("program", UNITS)
def test_pint(program: str) -> None:
    units = pytest.importorskip("pint").UnitRegistry()
    compare(program, {"Q": units.Quantity, "unit": units.m, "q": units.Quantity(np.array([1.0, 2.0, 3.0]), "m")})


@pytest.mark.parametrize("program", LABELLED)
def test_xarray(program: str) -> None:
    xr = pytest.importorskip("xarray")
    compare(program, {"xr": xr, "d": xr.DataArray([[1.0, 2, 3], [4, 5, 6]], dims=("x", "y"))})


@pytest.mark.parametrize("program", BLOCKED)
def test_dask(program: str) -> None:
    blocked = pytest.importorskip("dask.array")
    compare(program, {"dk": blocked.from_array(np.arange(3.0), chunks=2)})


@pytest.mark.parametrize("program", SPARSE)
def test_sparse(program: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    compare(program, {"sm": sparse.csr_matrix(np.eye(3) * 2), "sa": sparse.csr_array(np.eye(3) * 2)})


class Logged:
    """A type that implements both of NumPy's array protocols, and logs the calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.computed = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        assert not any(isinstance(each, wf.Array) for each in inputs)
        self.asked.append(f"{ufunc.__name__} {method} {sorted(options)}")
        return "a ufunc's result"

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        self.asked.append(function.__name__)
        return "a function's result"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.computed += 1
        return np.arange(3.0)


def test_protocols_are_asked_once_and_nothing_is_computed() -> None:
    x, other = wf.arange(3.0), Logged()
    assert wf.add(x, other) == "a ufunc's result" and x * other == "a ufunc's result"
    assert wf.add.reduce(other) == "a ufunc's result" and np.add(x, other) == "a ufunc's result"
    assert wf.concatenate([x, other]) == "a function's result" and np.stack([x, other]) == "a function's result"
    assert wf.linalg.norm(other) == "a function's result"
    y = x
    y += other
    assert y == "a ufunc's result"
    assert other.asked == [
        "add __call__ []",
        "multiply __call__ []",
        "add reduce []",
        "add __call__ []",
        "concatenate",
        "stack",
        "norm",
        "add __call__ ['out']",
    ]
    assert not other.computed
    assert (wf.asarray(other) + x).tolist() == [0, 2, 4] and other.computed == 1


def test_at_of_foreign_objects() -> None:
    class Logged:
        def __array_ufunc__(self, *arguments: Any, **options: Any) -> Any:
            return arguments[1:]

    given = Logged()
    assert wf.add.at(given, [0], 1) == ("at", given, [0], 1) and wf.negative.at(given, [0]) == ("at", given, [0])
    with pytest.raises(TypeError, match="first operand must be array"):
        wf.add.at([1, 2], [0], 1)


def test_what_is_foreign() -> None:
    class OnlyArray:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.arange(3.0)

    own = [wf.arange(3), np.arange(3), 1, 2.5, [1, (2.0, np.float32(3))], None, "text", range(3), OnlyArray()]
    assert not has_foreign(own) and not any(is_foreign(value) for value in own)
    assert has_foreign([1, [2, (3, np.asmatrix([1]))]]) and is_foreign(np.ma.array([1])) and is_foreign(Logged())
    assert wf.sum(OnlyArray()) == 3


def test_matmul_of_numpys_is_wefts() -> None:
    x, y = np.arange(6.0).reshape(2, 3), wf.arange(6.0).reshape(3, 2)
    found = np.matmul(x, y)
    assert isinstance(found, wf.Array) and found.tolist() == (x @ y.numpy()).tolist()
    assert (x @ y).tolist() == found.tolist()
    out = wf.zeros((2, 2))
    assert np.matmul(x, y, out=out) is out and out.tolist() == found.tolist()


def test_in_place_beside_a_subclass_stays_an_array() -> None:
    x = wf.asarray([[1.0, 2.0], [3.0, 4.0]])
    same = x
    x += np.asmatrix([[1.0, 1.0], [1.0, 1.0]])
    assert x is same and x.tolist() == [[2, 3], [4, 5]]


@pytest.mark.parametrize("other", [Decimal("2.5"), Fraction(1, 3), datetime.timedelta(days=2)], ids=repr)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "eq"])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_a_pending_scalar_gives_what_numpys_scalar_gives_with_an_object(dtype, name, other):
    def outcome(sum_, reflected):
        try:
            found = function(other, sum_) if reflected else function(sum_, other)
        except TypeError:
            return TypeError
        return type(found), found

    function, values = getattr(operator, name), np.ones(20_000, dtype)
    assert outcome(wf.asarray(values).sum() * 2, False) == outcome(values.sum() * 2, False)
    # (Python reflects comparisons by itself, and Fraction.__pow__ calls the scalar's operator with a float)
    is_own = name in ("lt", "eq") or (type(other) is Fraction and name == "pow")
    if not is_own:
        assert outcome(wf.asarray(values).sum() * 2, True) == outcome(values.sum() * 2, True)
