"""Optimal transport between two samples of points."""

import numpy as np
import ot


def main():
    rng = np.random.RandomState(1)
    n = 60
    source = rng.multivariate_normal(np.array([0, 0]), np.array([[1, 0], [0, 1]]), n)
    target = rng.multivariate_normal(np.array([4, 4]), np.array([[1, -0.8], [-0.8, 1]]), n)
    a, b = np.ones((n,)) / n, np.ones((n,)) / n
    cost = ot.dist(source, target)
    plan = ot.emd(a, b, cost)
    print(np.round(np.sum(plan * cost), 4), int(np.count_nonzero(plan)))
    print(np.argmax(plan, axis=1)[:10])
    entropic = ot.sinkhorn(a, b, cost / cost.max(), 0.05)
    print(np.round(np.sum(entropic * cost), 4), np.round(entropic.sum(axis=1)[:3], 5))
    print(np.round(ot.sliced_wasserstein_distance(source, target, seed=0), 4))
    mapped = n * plan @ target
    print(np.round(mapped.mean(axis=0), 4), np.round(ot.emd2(a, b, cost), 4))
    moved = ot.da.SinkhornTransport(reg_e=1e-1).fit(Xs=source, Xt=target).transform(Xs=source)
    print(np.round(moved[:3], 3))


if __name__ == "__main__":
    main()
