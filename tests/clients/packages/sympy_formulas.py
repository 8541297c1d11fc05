"""Generate NumPy functions from symbolic formulas."""

import numpy as np
import sympy as sp


def main():
    x, y, a = sp.symbols("x y a", real=True)
    formula = sp.exp(-a * x) * sp.sin(x * y) + sp.sqrt(x**2 + y**2)
    f = sp.lambdify((x, y, a), formula, "numpy")
    slope = sp.lambdify((x, y, a), sp.diff(formula, x), "numpy")
    xs, ys = np.linspace(0.1, 5, 500), np.linspace(0.5, 2, 500)
    print(np.round(f(xs, ys, 0.3)[::100], 5))
    print(np.round(np.abs(np.gradient(f(xs, 1.0, 0.3), xs) - slope(xs, 1.0, 0.3))[1:-1].max(), 5))
    gx, gy = np.meshgrid(xs[::10], ys[::10])
    surface = f(gx, gy, 0.5)
    print(np.round([surface.min(), surface.max(), surface.mean()], 5))
    matrix = sp.Matrix([[sp.cos(a), -sp.sin(a)], [sp.sin(a), sp.cos(a)]])
    turn = sp.lambdify(a, matrix, "numpy")
    points = np.stack([xs, ys])
    print(np.round((turn(np.pi / 6) @ points)[:, ::125], 5))
    pieces = sp.lambdify(x, sp.Piecewise((x**2, x < 1), (2 - x, x < 2), (0, True)), "numpy")
    print(np.round(np.trapezoid(pieces(xs), xs), 5))
    values = np.array(sp.Matrix([[2, 1], [1, 3]]).tolist(), dtype=float)
    print(np.round(np.linalg.eigvalsh(values), 5))


if __name__ == "__main__":
    main()
