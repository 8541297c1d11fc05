"""sympy expressions as fused functions, against sympy's own numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf

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
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_value(expression: Any) -> None:
    found = wf.lambdify((x, y), expression)(wf.asarray(GRID), wf.asarray(OTHER))
    wanted = [float(expression.subs({x: a, y: b})) for a, b in zip(GRID, OTHER, strict=True)]
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
    assert names.count("sin") == 2  # of x, and of the root in a derivative
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


def test_what_cannot_be_made() -> None:
    with pytest.raises(NameError, match="z is not among"):
        wf.lambdify((x, y), x + z)
    with pytest.raises(TypeError, match="zeta"):
        wf.lambdify(x, sympy.zeta(x))
    with pytest.raises(TypeError, match="2 symbols"):
        wf.lambdify((x, y), x + y)(GRID)


def test_sympy_loads_when_it_is_used() -> None:
    root = Path(__file__).resolve().parents[2]
    code = "import sys, weft; weft.lambdify; print('sympy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(root / "src")}
    )
    assert done.stdout.strip() == "False"
