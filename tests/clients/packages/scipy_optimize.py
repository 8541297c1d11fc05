"""Fit a decay, minimise Rosenbrock's function, and find roots."""

import numpy as np
from scipy import optimize


def decay(x, a, b, c):
    return a * np.exp(-b * x) + c


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0)


def equations(x):
    return np.array([x[0] * np.cos(x[1]) - 4, x[1] * x[0] - x[1] - 5])


def main():
    rng = np.random.default_rng(4)
    x = np.linspace(0, 4, 200)
    y = decay(x, 2.5, 1.3, 0.5) + 0.2 * rng.normal(size=x.size)
    found, covariance = optimize.curve_fit(decay, x, y)
    print(np.round(found, 4), np.round(np.sqrt(np.diag(covariance)), 4))
    best = optimize.minimize(rosenbrock, np.array([1.3, 0.7, 0.8, 1.9, 1.2]), method="BFGS")
    print(best.success, np.round(best.x, 3))
    simplex = optimize.minimize(rosenbrock, np.zeros(3), method="nelder-mead", options={"xatol": 1e-8})
    print(np.round(simplex.x, 4))
    print(np.round(optimize.fsolve(equations, [1, 1]), 5))
    robust = optimize.least_squares(lambda p: decay(x, *p) - y, np.ones(3), loss="soft_l1", f_scale=0.1)
    print(np.round(robust.x, 4))
    print(np.round(optimize.brentq(lambda t: np.cos(t) - t, 0, 1), 6))


if __name__ == "__main__":
    main()
