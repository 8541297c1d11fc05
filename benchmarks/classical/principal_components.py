"""Principal components by power iteration with deflation."""

import numpy as np

FEATURES, COMPONENTS = 60, 6


def data(count, rng):
    hidden = rng.standard_normal((count, COMPONENTS)) * (1 + np.arange(COMPONENTS))[::-1]
    loading = rng.standard_normal((COMPONENTS, FEATURES))
    return hidden @ loading + 0.3 * rng.standard_normal((count, FEATURES))


def standardize(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def power_iteration(matrix, start):
    vector, value = start / np.linalg.norm(start), 0.0
    for _ in range(200):
        new = matrix @ vector
        length = float(np.linalg.norm(new))
        new = new / length
        if abs(length - value) < 1e-12 * length:
            break
        vector, value = new, length
    return vector, value


def main(size):
    rng = np.random.default_rng(17)
    x = standardize(data(size, rng))
    covariance = x.T @ x / (size - 1)
    vectors, values = [], []
    for _ in range(COMPONENTS):
        vector, value = power_iteration(covariance, np.ones(FEATURES))
        vector = vector * np.sign(vector[np.argmax(np.abs(vector))])
        covariance = covariance - value * np.outer(vector, vector)
        vectors.append(vector)
        values.append(value)
    basis = np.array(vectors)
    projected = x @ basis.T
    error = np.sqrt(((x - projected @ basis) ** 2).mean())
    return np.array(values), np.abs(basis @ basis.T).round(6), projected.var(axis=0), error
