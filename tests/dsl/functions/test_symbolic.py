"""Tests of fused functions that are made from sympy expressions."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

sympy = pytest.importorskip("sympy")
x, y, z = sympy.symbols("x y z", real=True)
GRID = np.linspace(0.1, 2.3, 57)
OTHER = np.linspace(3.0, 0.4, 57)

EXPRESSIONS = [
    x + y * 2 - 3,
    x**2 + x**3 - x**-2 + y**7,
    sympy.sqrt(x) / sympy.sqrt(y) + x ** sympy.Rational(1, 3),
    x**y + 2**x,
    sympy.exp(-x) * sympy.sin(y) + sympy.log(x),
    sympy.tanh(x) + sympy.atan2(y, x) + sympy.acosh(x + 1),
    sympy.Piecewise((x, x > 1), (y**2, sympy.And(x > 0.5, y < 2)), (-1, True)),
    sympy.Max(x, y, 1) - sympy.Min(x, y),
    sympy.Abs(x - y) + sympy.sign(x - 1) + sympy.floor(3 * x) + sympy.ceiling(y) + sympy.Mod(x, 0.7),
    sympy.erf(x) + sympy.gamma(x) + sympy.loggamma(y),
    sympy.pi * x + sympy.E + sympy.sqrt(2) * y + sympy.Rational(1, 3),
    sympy.Integer(5),
    sympy.Heaviside(x - 1) * x,
    sympy.Heaviside(x - 1, 0) + sympy.Heaviside(y, 1),
    sympy.sinc(x) + sympy.sinc(0 * x) + sympy.frac(3 * x) + sympy.arg(-x),
    sympy.sec(x) + sympy.csc(x) + sympy.cot(x) + sympy.sech(x) + sympy.csch(x) + sympy.coth(x),
    sympy.acot(x) + sympy.asec(x + 1) + sympy.acsc(x + 1) + sympy.acoth(x + 1) + sympy.asech(x / 3) + sympy.acsch(x),
    sympy.Sum(x**z, (z, 0, 4)) + sympy.Product(x + z, (z, 1, 3)) + sympy.Integral(sympy.sin(z), (z, 0, y)),
    sympy.Derivative(sympy.sin(x) * y, x) + sympy.factorial(x) + sympy.binomial(x, 2),
    sympy.Min(x, sympy.oo) + x * 10**30,
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_value(expression: Any) -> None:
    found = wf.lambdify((x, y), expression)(wf.asarray(GRID), wf.asarray(OTHER))
    wanted = [float(expression.doit().subs({x: a, y: b})) for a, b in zip(GRID, OTHER, strict=True)]
    np.testing.assert_allclose(np.broadcast_to(np.asarray(found), GRID.shape), wanted, rtol=2e-13, atol=1e-14)


def test_it_is_one_kernel_and_float32_stays_float32() -> None:
    expression = sympy.sqrt(2) * sympy.exp(-(x**2)) + sympy.Rational(1, 3) * x**2
    f = wf.lambdify([x], expression)
    values = wf.asarray(GRID.astype(np.float32))
    result = f(values)
    assert result.dtype == np.float32
    wf.reset_statistics()
    result.numpy()
    assert wf.statistics()["kernels"] == 1


def test_common_parts_are_computed_once() -> None:
    part = sympy.sqrt(1 + sympy.sin(x) * y)
    f = wf.lambdify((x, y), part + sympy.exp(part) + sympy.cos(part), wrt=x)
    names = [instruction[0] for instruction in f.program.instructions]
    assert names.count("sqrt") == 1
    assert names.count("sin") == 2  # the sine of x, and the sine of the root in a derivative
    assert names.count("exp") == 1


def test_derivatives() -> None:
    expression = sympy.sin(x) * y**2
    value, (by_x, by_y) = wf.lambdify((x, y), expression, wrt=(x, y))(GRID, OTHER)
    np.testing.assert_allclose(value.numpy(), np.sin(GRID) * OTHER**2, rtol=1e-14)
    np.testing.assert_allclose(by_x.numpy(), np.cos(GRID) * OTHER**2, rtol=1e-14)
    np.testing.assert_allclose(by_y.numpy(), 2 * np.sin(GRID) * OTHER, rtol=1e-14)
    value, slope = wf.lambdify(x, sympy.exp(2 * x), wrt=x)(GRID)
    np.testing.assert_allclose(slope.numpy(), 2 * np.exp(2 * GRID), rtol=1e-14)


def test_matrices_and_sequences() -> None:
    matrix = sympy.Matrix([[x, y], [x * y, 1], [0, sympy.sin(x)]])
    found = wf.lambdify((x, y), matrix)(GRID, OTHER)
    assert found.shape == (3, 2, 57)
    np.testing.assert_allclose(found.numpy()[1, 0], GRID * OTHER)
    np.testing.assert_allclose(found.numpy()[1, 1], 1)
    first, second = wf.lambdify((x, y), (x + y, x - y))(GRID, OTHER)
    np.testing.assert_allclose((first * second).numpy(), GRID**2 - OTHER**2, atol=1e-14)
    _, jacobian = wf.lambdify((x, y), sympy.Matrix([x * y, x + y]), wrt=x)(GRID, OTHER)
    np.testing.assert_allclose(jacobian.numpy()[0, 0], OTHER)


def test_integers_are_divided_as_numbers() -> None:
    n = sympy.Symbol("n", integer=True)
    whole = np.arange(1, 9)
    for expression, wanted in [(1 / n, 1 / whole), (n / 3, whole / 3), (n**-2 + n**3, 1 / whole**2 + whole**3)]:
        np.testing.assert_allclose(wf.lambdify(n, expression)(whole), wanted, rtol=1e-15)


def test_a_quotient_is_one_division() -> None:
    f = wf.lambdify((x, y), x / y)
    np.testing.assert_array_equal(f(GRID, OTHER), GRID / OTHER)
    assert [instruction[0] for instruction in f.program.instructions] == ["symbol", "symbol", "divide"]


@pytest.mark.parametrize("real", [True, None])
def test_derivatives_almost_everywhere(real: bool | None) -> None:
    s = sympy.Symbol("s", real=real)
    cases = [
        (sympy.Abs(s - 1), np.sign(GRID - 1)),
        (sympy.Max(s, 1), np.heaviside(GRID - 1, 0.5)),
        (sympy.Heaviside(s - 1) * s, np.heaviside(GRID - 1, 0.5)),
        (sympy.sign(s) + sympy.floor(s) * s, np.floor(GRID)),
        (sympy.Piecewise((s**2, s < 1), (2 * s - 1, True)), np.where(GRID < 1, 2 * GRID, 2)),
    ]
    for expression, wanted in cases:
        _, slope = wf.lambdify(s, expression, wrt=s)(GRID)
        np.testing.assert_allclose(np.broadcast_to(np.asarray(slope), GRID.shape), wanted, atol=1e-14)


def test_arguments_of_several_symbols() -> None:
    both = np.stack([GRID, OTHER])
    f = wf.lambdify([(x, y), z], x + y * z)
    np.testing.assert_allclose(f(both, 2), GRID + 2 * OTHER)
    np.testing.assert_allclose(f([GRID, OTHER], 2), GRID + 2 * OTHER)
    matrix, vector = sympy.MatrixSymbol("A", 2, 2), sympy.MatrixSymbol("v", 2, 1)
    values = np.random.default_rng(0).random((2, 2, 5))
    np.testing.assert_allclose(wf.lambdify(matrix, sympy.det(matrix.as_explicit()))(values), np.linalg.det(values.T))
    product = wf.lambdify([matrix, vector], matrix * vector)(values[..., 0], np.ones((2, 1)))
    np.testing.assert_allclose(product, values[..., 0] @ np.ones((2, 1)))
    with pytest.raises(ValueError, match="argument 1 stands for symbols of shape"):
        f(GRID, 2)


def test_arrays_of_expressions() -> None:
    found = wf.lambdify(x, sympy.Array([[[x, 1]], [[2, x**2]]]))(GRID)
    assert found.shape == (2, 1, 2, 57)
    np.testing.assert_allclose(found.numpy()[1, 0, 1], GRID**2)


def test_what_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="a list or tuple of expressions is wanted"):
        wf.lambdify(x, [[x, 1], [2, x]])
    with pytest.raises(TypeError, match="a symbol, a sequence or a matrix of symbols"):
        wf.lambdify("x", x)
    with pytest.raises(NameError, match="of that name with other assumptions"):
        wf.lambdify(sympy.Symbol("x"), x)
    with pytest.raises(NameError, match="differentiate by z"):
        wf.lambdify(x, x, wrt=z)
    with pytest.raises(TypeError, match=r"f has no counterpart among weft's functions, in f\(x\)"):
        wf.lambdify(x, sympy.Function("f")(x))
    with pytest.raises(NameError, match="z is not among"):
        wf.lambdify((x, y), x + z)
    with pytest.raises(TypeError, match="zeta"):
        wf.lambdify(x, sympy.zeta(x))
    with pytest.raises(TypeError, match="2 symbols"):
        wf.lambdify((x, y), x + y)(GRID)


def test_sympy_loads_when_it_is_used() -> None:
    root = Path(__file__).resolve().parents[3]
    code = "import sys, weft; weft.lambdify; print('sympy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(root / "src")}
    )
    assert done.stdout.strip() == "False"


def test_numbers_among_symbols() -> None:
    x, number = sympy.Symbol("x"), wf.asarray([1.0, 2.0]).sum()
    assert sympy.sin(number) == sympy.sin(3.0) and x * number == number * x == 3.0 * x
    assert (wf.asarray([1, 2]) * x).tolist() == [x, 2 * x]


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("chooses", [False, True])
def test_small_arrays_are_computed_at_the_call_with_the_same_bits(chooses: bool, kind: str) -> None:
    expression = sympy.log(x) / x + sympy.exp(y) / 3
    f = wf.lambdify((x, y), sympy.Piecewise((expression, x > 0), (x * y, True)) if chooses else expression, wrt=(x, y))
    a, b = np.linspace(-1, 2, 31).astype(kind), np.float32(2)

    def run() -> list[Any]:
        value, slopes = f(wf.asarray(a), b)
        return [np.asarray(part) for part in (value, *slopes)]

    recorded = run()
    wf.reset_statistics()
    with override(immediate=1000), warnings.catch_warnings(action="error"):
        at_call = run()
    assert chooses or wf.statistics()["plans"] == 0
    for one, other in zip(recorded, at_call, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
