"""Evaluate array expressions with numexpr."""

import numexpr as ne
import numpy as np


def main():
    rng = np.random.default_rng(30)
    a, b = rng.random(100_000), rng.random(100_000)
    found = ne.evaluate("2*a + 3*b**2 + sin(a) * exp(-b)")
    print(np.round(found.sum(), 4), np.allclose(found, 2 * a + 3 * b**2 + np.sin(a) * np.exp(-b)))
    print(np.round(ne.evaluate("sum(a * b)"), 5))
    inside = ne.evaluate("a**2 + b**2 < 1")
    print(inside.dtype, np.round(4 * np.mean(inside), 5))
    out = np.zeros(1_000)
    x = np.linspace(0, 1, 1_000)
    out[:] = ne.evaluate("where(x > 0.5, sqrt(x), x**3)")
    print(np.round(out[::200], 5))
    y = np.arange(1_200).reshape(30, 40)
    row = np.arange(40)
    print(ne.evaluate("y * 2 + row")[::10, ::10])


if __name__ == "__main__":
    main()
