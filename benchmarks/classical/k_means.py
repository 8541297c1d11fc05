"""k-means clustering by Lloyd's algorithm, with initial centers from k-means++."""

import numpy as np

CLUSTERS, DIMENSIONS = 12, 4


def choose_centers(points, rng):
    centers = [points[int(rng.integers(len(points)))]]
    nearest = ((points - centers[0]) ** 2).sum(axis=1)
    for _ in range(CLUSTERS - 1):
        steps = np.cumsum(nearest)
        chosen = int(np.searchsorted(steps, rng.random() * float(steps[-1])))
        centers.append(points[chosen])
        nearest = np.minimum(nearest, ((points - points[chosen]) ** 2).sum(axis=1))
    return np.array(centers)


def assign(points, centers):
    distances = (points**2).sum(axis=1)[:, None] - 2 * points @ centers.T + (centers**2).sum(axis=1)
    labels = distances.argmin(axis=1)
    return labels, distances.min(axis=1).sum()


def main(size):
    rng = np.random.default_rng(15)
    means = rng.uniform(-10, 10, (CLUSTERS, DIMENSIONS))
    points = means[rng.integers(0, CLUSTERS, size)] + rng.standard_normal((size, DIMENSIONS))
    centers = choose_centers(points, rng)
    losses = []
    for _ in range(15):
        labels, loss = assign(points, centers)
        losses.append(float(loss))
        for k in range(CLUSTERS):
            members = points[labels == k]
            if len(members):
                centers[k] = members.mean(axis=0)
    return centers, np.bincount(labels, minlength=CLUSTERS), np.array(losses)
