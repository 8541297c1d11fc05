"""Track an object in the plane, and smooth its path."""

import numpy as np
from filterpy.common import Q_discrete_white_noise
from filterpy.kalman import KalmanFilter


def main():
    rng = np.random.default_rng(18)
    dt, steps = 0.5, 200
    kalman = KalmanFilter(dim_x=4, dim_z=2)
    kalman.F = np.array([[1, dt, 0, 0], [0, 1, 0, 0], [0, 0, 1, dt], [0, 0, 0, 1]])
    kalman.H = np.array([[1, 0, 0, 0], [0, 0, 1, 0]])
    kalman.R = np.eye(2) * 0.35**2 * 4
    kalman.Q = np.kron(np.eye(2), Q_discrete_white_noise(dim=2, dt=dt, var=0.01))
    kalman.P = np.eye(4) * 500.0
    t = np.arange(steps) * dt
    truth = np.stack([0.3 * t + np.sin(t / 8), 0.2 * t + np.cos(t / 9)], axis=1)
    measured = truth + 0.7 * rng.standard_normal(truth.shape)
    means, covariances, _, _ = kalman.batch_filter(list(measured[:, :, None]))
    smooth, _, _, _ = kalman.rts_smoother(means, covariances)
    for found in (measured, means[:, [0, 2], 0], smooth[:, [0, 2], 0]):
        print(np.round(np.sqrt(np.mean((found - truth) ** 2)), 5))
    print(np.round(smooth[::50, :, 0], 4))
    print(np.round(covariances[-1].diagonal(), 5), np.round(kalman.log_likelihood, 4))


if __name__ == "__main__":
    main()
