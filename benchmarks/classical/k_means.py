"""k-means by Lloyd's algorithm, starting from centres that are far apart (k-means++)."""

import numpy as np

CLUSTERS, DIMENSIONS = 12, 4


def choose_centres(points, rng):
    centres = [points[int(rng.integers(len(points)))]]
    nearest = ((points - centres[0]) ** 2).sum(axis=1)
    for _ in range(CLUSTERS - 1):
        steps = np.cumsum(nearest)
        chosen = int(np.searchsorted(steps, rng.random() * float(steps[-1])))
        centres.append(points[chosen])
        nearest = np.minimum(nearest, ((points - points[chosen]) ** 2).sum(axis=1))
    return np.array(centres)


def assign(points, centres):
    distances = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    labels = distances.argmin(axis=1)
    return labels, distances.min(axis=1).sum()


def main(size):
    rng = np.random.default_rng(15)
    means = rng.uniform(-10, 10, (CLUSTERS, DIMENSIONS))
    points = means[rng.integers(0, CLUSTERS, size)] + rng.standard_normal((size, DIMENSIONS))
    centres = choose_centres(points, rng)
    losses = []
    for _ in range(15):
        labels, loss = assign(points, centres)
        losses.append(float(loss))
        for k in range(CLUSTERS):
            members = points[labels == k]
            if len(members):
                centres[k] = members.mean(axis=0)
    return centres, np.bincount(labels, minlength=CLUSTERS), np.array(losses)
