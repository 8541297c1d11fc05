"""A Gaussian mixture model, fitted by the expectation-maximization algorithm."""

import numpy as np

COMPONENTS, DIMENSIONS = 5, 3


def sample(count, rng):
    centers = rng.uniform(-6, 6, (COMPONENTS, DIMENSIONS))
    shapes = rng.standard_normal((COMPONENTS, DIMENSIONS, DIMENSIONS)) * 0.5 + np.eye(DIMENSIONS)
    which = rng.integers(0, COMPONENTS, count)
    noise = rng.standard_normal((count, DIMENSIONS))
    points = np.empty((count, DIMENSIONS))
    for k in range(COMPONENTS):
        points[which == k] = centers[k] + noise[which == k] @ shapes[k].T
    return points


def log_density(points, mean, covariance):
    root = np.linalg.cholesky(covariance)
    scaled = np.linalg.solve(root, (points - mean).T)
    logarithm = np.log(np.diag(root)).sum()
    return -0.5 * (scaled**2).sum(axis=0) - logarithm - 0.5 * DIMENSIONS * np.log(2 * np.pi)


def expectation(points, weights, means, covariances):
    logs = np.stack(
        [np.log(weights[k]) + log_density(points, means[k], covariances[k]) for k in range(COMPONENTS)], axis=1
    )
    largest = logs.max(axis=1, keepdims=True)
    total = largest + np.log(np.exp(logs - largest).sum(axis=1, keepdims=True))
    return np.exp(logs - total), float(total.mean())


def maximisation(points, shares):
    counts = shares.sum(axis=0)
    means = shares.T @ points / counts[:, None]
    covariances = np.empty((COMPONENTS, DIMENSIONS, DIMENSIONS))
    for k in range(COMPONENTS):
        centered = points - means[k]
        covariances[k] = (shares[:, k, None] * centered).T @ centered / counts[k] + 1e-6 * np.eye(DIMENSIONS)
    return counts / len(points), means, covariances


def main(size):
    rng = np.random.default_rng(4)
    points = sample(size, rng)
    weights = np.full(COMPONENTS, 1 / COMPONENTS)
    means = points[rng.choice(size, COMPONENTS, replace=False)]
    covariances = np.tile(np.cov(points.T), (COMPONENTS, 1, 1))
    likelihoods = []
    for _ in range(15):
        shares, likelihood = expectation(points, weights, means, covariances)
        likelihoods.append(likelihood)
        weights, means, covariances = maximisation(points, shares)
    return weights, means, covariances, np.array(likelihoods), np.bincount(shares.argmax(axis=1), minlength=COMPONENTS)
