"""Minimise Rosenbrock's function by covariance matrix adaptation."""

import cma
import numpy as np


def rosenbrock(x):
    x = np.asarray(x)
    return float(np.sum(100 * (x[:-1] ** 2 - x[1:]) ** 2 + (x[:-1] - 1) ** 2))


def main():
    options = {"seed": 36, "verbose": -9, "maxiter": 100}
    es = cma.CMAEvolutionStrategy(np.full(6, 0.1), 0.5, options)
    history = []
    while not es.stop():
        candidates = es.ask()
        values = [rosenbrock(candidate) for candidate in candidates]
        es.tell(candidates, values)
        history.append(min(values))
    print(len(history), np.round(np.log10(np.array(history)[::20]), 3))
    print(np.round(es.result.xbest, 3))


if __name__ == "__main__":
    main()
