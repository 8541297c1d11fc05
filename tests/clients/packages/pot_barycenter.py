"""Distances, barycentres and transport plans of histograms."""

import numpy as np
import ot


def main():
    n = 100
    x = np.arange(n, dtype=np.float64)
    a, b = ot.datasets.make_1D_gauss(n, m=20, s=5), ot.datasets.make_1D_gauss(n, m=60, s=8)
    both = np.vstack((a, b)).T
    cost = ot.utils.dist0(n)
    cost /= cost.max()
    print(np.round(ot.wasserstein_1d(x, x, a, b, p=1), 4))
    for weight in (0.2, 0.5, 0.8):
        weights = np.array([1 - weight, weight])
        middle = ot.bregman.barycenter(both, cost, 1e-3, weights)
        print(np.round(np.sum(middle * x), 4), int(np.argmax(middle)), np.round(np.sum(both @ weights), 4))
    plan = ot.sinkhorn(a, b, cost, 1e-2, verbose=False)
    print(np.round(np.abs(plan.sum(axis=1) - a).max(), 6), np.round(plan[20, 50:70:5] * 1e3, 4))
    partial = ot.partial.entropic_partial_wasserstein(a, b, cost, 1e-1, m=0.5)
    print(np.round(partial.sum(), 4))
    gromov = ot.gromov.gromov_wasserstein(cost[:30, :30], cost[:30, :30], ot.unif(30), ot.unif(30))
    print(np.round(np.sum(gromov), 4))


if __name__ == "__main__":
    main()
