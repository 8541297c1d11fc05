"""Compile loops with Numba, and call them with small and large arrays."""

from typing import NamedTuple

import numba
import numpy as np
from numpy import sqrt


class Cloud(NamedTuple):
    points: np.ndarray
    scale: float


WEIGHTS = np.linspace(0.5, 1.5, 50_000)


@numba.njit
def lengths(points):
    result = np.empty(len(points))
    for k in range(len(points)):
        result[k] = WEIGHTS[k] * sqrt(np.sum(points[k] ** 2))
    return result


@numba.njit
def total(cloud, power=2):
    return cloud.scale * np.abs(cloud.points).sum() ** power


@numba.njit
def joint(first, *others):
    result = first.sum()
    for other in others:
        result += other.sum()
    return result


@numba.njit("void(float64[:])")
def running_sum(values):
    for k in range(1, len(values)):
        values[k] += values[k - 1]


@numba.njit(parallel=True)
def damped(values, rate):
    result = np.zeros_like(values)
    for k in numba.prange(len(values)):
        result[k] = values[k] * np.exp(-rate * k)
    return result


@numba.vectorize
def clipped(x, low):
    return np.maximum(x, low)


@numba.guvectorize([(numba.float64[:], numba.float64[:])], "(n)->(n)")
def centered(values, result):
    result[:] = values - np.mean(values)


@numba.stencil
def mean_of_neighbors(values):
    return (values[-1] + values[1]) / 2


@numba.experimental.jitclass([("sums", numba.float64[:])])
class Sums:
    def __init__(self, size):
        self.sums = np.zeros(size)

    def add(self, values):
        self.sums += values
        return self.sums.sum()


def scaled(function, factor):
    @numba.njit
    def scale(x):
        return factor[0] * function(x)

    return scale


def main():
    rng = np.random.default_rng(33)
    for count in (100, 40_000):
        points = rng.standard_normal((count, 3))
        r = lengths(points)
        print(count, np.round([r.mean(), r.max()], 6), np.round(lengths(points * 2)[:3], 6))
        print(np.round(total(Cloud(points, 2.0)), 3), np.round(total(Cloud(points, 1.0), power=1), 6))
        print(np.round(joint(r, r + 1), 6))
        r *= 1.5
        running_sum(r)
        r -= 1
        running_sum(values=r)
        print(np.round(r[-3:], 6), np.round(damped(r, 1e-3).sum(), 6))
        print(np.round(clipped(r, 10.0)[:4], 6), np.round(centered(points.T).sum(axis=1), 6))
        print(np.round(mean_of_neighbors(r)[:3], 6), np.round(lengths((points + 1j * points).real)[:2], 6))
        sums = Sums(count)
        sums.add(r)
        print(np.round(sums.add(r * 2), 4))
    print(np.round(scaled(np.cos, WEIGHTS * 2)(1.0), 6), len(lengths.signatures))


if __name__ == "__main__":
    main()
