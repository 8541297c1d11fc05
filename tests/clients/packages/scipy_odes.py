"""Integrate the Lorenz system, the diffusion equation, and functions of one variable."""

import numpy as np
from scipy.integrate import quad, simpson, solve_ivp


def lorenz(t, state, sigma=10.0, rho=28.0, beta=8 / 3):
    x, y, z = state
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def diffusion(t, u, dx):
    change = np.zeros_like(u)
    change[1:-1] = (u[2:] - 2 * u[1:-1] + u[:-2]) / dx**2
    return change


def main():
    times = np.linspace(0, 5, 500)
    found = solve_ivp(lorenz, (0, 5), np.array([1.0, 1.0, 1.0]), t_eval=times, rtol=1e-8, atol=1e-10)
    print(found.success, np.round(found.y[:, -1], 3))
    print(np.round(np.linalg.norm(np.diff(found.y, axis=1), axis=0).sum(), 2))
    x = np.linspace(0, 1, 200)
    start = np.exp(-100 * (x - 0.5) ** 2)
    later = solve_ivp(diffusion, (0, 0.01), start, method="LSODA", args=(x[1] - x[0],), rtol=1e-6)
    print(np.round(later.y[::25, -1], 4))
    print(np.round(simpson(later.y[:, -1], x=x), 5))
    print(np.round(quad(lambda v: np.exp(-(v**2)), -np.inf, np.inf)[0], 6))


if __name__ == "__main__":
    main()
