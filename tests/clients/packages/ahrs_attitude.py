"""Estimate orientations from simulated sensors."""

import ahrs
import numpy as np
from ahrs.filters import EKF, AngularRate, Madgwick, Tilt


def main():
    rng = np.random.default_rng(24)
    n, rate = 300, 100.0
    t = np.arange(n) / rate
    gyro = np.column_stack([0.5 * np.cos(2 * t), 0.3 * np.sin(t), 0.2 * np.ones(n)])
    gyro = gyro + 0.01 * rng.standard_normal((n, 3))
    truth = AngularRate(gyr=gyro, frequency=rate).Q
    accelerations = np.empty((n, 3))
    for k in range(n):
        accelerations[k] = ahrs.Quaternion(truth[k]).to_DCM().T @ np.array([0, 0, 9.81])
    accelerations += 0.05 * rng.standard_normal((n, 3))
    found = Madgwick(gyr=gyro, acc=accelerations, frequency=rate).Q
    print(np.round(found[::60], 4))
    errors = ahrs.utils.metrics.qad(truth, found)
    print(np.round([np.mean(errors), np.max(errors)], 5))
    angles = ahrs.QuaternionArray(found).to_angles() * 180 / np.pi
    print(np.round(angles[-1], 3), np.round(np.std(angles, axis=0), 3))
    tilt = Tilt(accelerations).Q
    print(np.round(tilt[::100], 4))
    print(np.round(np.linalg.norm(EKF(gyr=gyro, acc=accelerations, frequency=rate).Q, axis=1)[::100], 6))


if __name__ == "__main__":
    main()
