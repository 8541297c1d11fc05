"""Track an aircraft by its range and elevation from a radar, with an unscented filter."""

import numpy as np
from filterpy.common import Q_discrete_white_noise
from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter


def move(state, dt):
    transition = np.array([[1, dt, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    return np.dot(transition, state)


def look(state):
    return np.array([np.sqrt(state[0] ** 2 + state[2] ** 2), np.arctan2(state[2], state[0])])


def main():
    rng = np.random.default_rng(19)
    dt = 3.0
    points = MerweScaledSigmaPoints(n=3, alpha=0.1, beta=2.0, kappa=0.0)
    tracker = UnscentedKalmanFilter(3, 2, dt, look, move, points)
    tracker.Q[:2, :2] = Q_discrete_white_noise(2, dt=dt, var=0.1)
    tracker.Q[2, 2] = 0.1
    tracker.R = np.diag([5.0**2, np.radians(0.5) ** 2])
    tracker.x, tracker.P = np.array([0.0, 90.0, 1100.0]), np.diag([300.0**2, 30.0**2, 150.0**2])
    states = np.empty((120, 3))
    for k in range(120):
        true = np.array([100.0 * dt * k, 100.0, 1000.0])
        tracker.predict()
        tracker.update(look(true) + rng.standard_normal(2) * [5.0, np.radians(0.5)])
        states[k] = tracker.x
    print(np.round(states[::20], 2))
    print(np.round(np.std(states[60:, 1]), 3), np.round(np.sqrt(np.diag(tracker.P)), 3))


if __name__ == "__main__":
    main()
