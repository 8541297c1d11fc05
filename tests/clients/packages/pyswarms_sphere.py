"""Minimise functions with a swarm."""

import logging

import numpy as np
import pyswarms as ps
from pyswarms.utils.functions import single_obj

logging.disable(logging.CRITICAL)


def rastrigin(x):
    return 10 * x.shape[1] + np.sum(x**2 - 10 * np.cos(2 * np.pi * x), axis=1)


def main():
    np.random.seed(28)
    options = {"c1": 0.5, "c2": 0.3, "w": 0.9}
    bounds = (-5.12 * np.ones(4), 5.12 * np.ones(4))
    swarm = ps.single.GlobalBestPSO(n_particles=50, dimensions=4, options=options, bounds=bounds)
    cost, position = swarm.optimize(rastrigin, iters=80, verbose=False)
    print(np.round(cost, 5), np.round(position, 4))
    history = np.array(swarm.cost_history)
    print(np.round(history[::20], 4), bool(np.all(np.diff(history) <= 0)))
    local = {**options, "k": 3, "p": 2}
    cost, position = ps.single.LocalBestPSO(20, 2, local).optimize(single_obj.sphere, iters=60, verbose=False)
    print(np.round(cost, 5), np.round(position, 4))


if __name__ == "__main__":
    main()
