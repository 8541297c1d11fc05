"""A Kalman filter and smoother for a point in the plane with noisy position measurements."""

import numpy as np


def model(dt):
    transition = np.eye(4)
    transition[0, 2] = transition[1, 3] = dt
    observation = np.zeros((2, 4))
    observation[0, 0] = observation[1, 1] = 1
    drift = np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
    noise = 0.05 * np.kron(drift, np.eye(2))
    return transition, observation, noise, 0.5 * np.eye(2)


def simulate(transition, observation, noise, error, steps, rng):
    state = np.array([0.0, 0.0, 1.0, 0.5])
    root, root_of_error = np.linalg.cholesky(noise), np.linalg.cholesky(error)
    states, measured = np.empty((steps, 4)), np.empty((steps, 2))
    for k in range(steps):
        state = transition @ state + root @ rng.standard_normal(4)
        states[k] = state
        measured[k] = observation @ state + root_of_error @ rng.standard_normal(2)
    return states, measured


def main(size):
    transition, observation, noise, error = model(0.1)
    truth, measured = simulate(transition, observation, noise, error, size, np.random.default_rng(2))
    mean, covariance = np.zeros(4), 10 * np.eye(4)
    means, covariances, likelihood = np.empty((size, 4)), np.empty((size, 4, 4)), 0.0
    for k in range(size):
        mean = transition @ mean
        covariance = transition @ covariance @ transition.T + noise
        innovation = measured[k] - observation @ mean
        spread = observation @ covariance @ observation.T + error
        gain = covariance @ observation.T @ np.linalg.inv(spread)
        mean = mean + gain @ innovation
        covariance = (np.eye(4) - gain @ observation) @ covariance
        means[k], covariances[k] = mean, covariance
        likelihood -= 0.5 * (
            innovation @ np.linalg.solve(spread, innovation) + np.log(np.linalg.det(2 * np.pi * spread))
        )
    smooth = means.copy()
    for k in range(size - 2, -1, -1):
        ahead = transition @ covariances[k] @ transition.T + noise
        gain = covariances[k] @ transition.T @ np.linalg.inv(ahead)
        smooth[k] = means[k] + gain @ (smooth[k + 1] - transition @ means[k])
    errors = np.sqrt(((smooth[:, :2] - truth[:, :2]) ** 2).sum(axis=1))
    return means, smooth, likelihood, errors.mean()
