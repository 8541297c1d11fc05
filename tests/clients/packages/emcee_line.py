"""Fit a line by sampling its posterior."""

import emcee
import numpy as np


def log_probability(theta, x, y, error):
    slope, intercept, log_f = theta
    if not (-5.0 < slope < 0.5 and 0.0 < intercept < 10.0 and -10.0 < log_f < 1.0):
        return -np.inf
    model = slope * x + intercept
    variance = error**2 + model**2 * np.exp(2 * log_f)
    return -0.5 * np.sum((y - model) ** 2 / variance + np.log(variance))


def main():
    rng = np.random.RandomState(123)
    x = np.sort(10 * rng.rand(50))
    error = 0.1 + 0.5 * rng.rand(50)
    y = -0.9594 * x + 4.294
    y += np.abs(0.534 * y) * rng.randn(50)
    y += error * rng.randn(50)
    start = np.array([-1.0, 4.5, -0.7]) + 1e-4 * rng.randn(32, 3)
    sampler = emcee.EnsembleSampler(32, 3, log_probability, args=(x, y, error))
    sampler.random_state = np.random.RandomState(42).get_state()
    sampler.run_mcmc(start, 200)
    chain = sampler.get_chain(discard=100, thin=5, flat=True)
    print(chain.shape, np.round(np.mean(sampler.acceptance_fraction), 4))
    for k in range(3):
        low, middle, high = np.percentile(chain[:, k], [16, 50, 84])
        print(np.round([middle, high - middle, middle - low], 4))
    print(np.round(sampler.get_log_prob(flat=True).max(), 4))


if __name__ == "__main__":
    main()
