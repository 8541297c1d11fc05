"""Sample a five-dimensional Gaussian, with one call for all walkers."""

import emcee
import numpy as np


def main():
    rng = np.random.RandomState(7)
    mean = rng.rand(5)
    root = 0.5 - rng.rand(25).reshape((5, 5))
    root = np.triu(root)
    root += root.T - np.diag(root.diagonal())
    covariance = np.dot(root, root)
    inverse = np.linalg.inv(covariance)

    def log_probability(x):
        shifted = x - mean
        return -0.5 * np.einsum("ki,ij,kj->k", shifted, inverse, shifted)

    start = rng.rand(64, 5)
    sampler = emcee.EnsembleSampler(64, 5, log_probability, vectorize=True)
    sampler.random_state = np.random.RandomState(1).get_state()
    state = sampler.run_mcmc(start, 50)
    sampler.reset()
    sampler.run_mcmc(state, 300)
    samples = sampler.get_chain(flat=True)
    print(np.round(samples.mean(axis=0), 4))
    print(np.round(np.cov(samples, rowvar=False), 4))
    print(np.histogram(samples[:, 0], 10)[0].tolist())


if __name__ == "__main__":
    main()
