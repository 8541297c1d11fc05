"""A spectrogram by matrix products instead of a fast Fourier transform.

Windowed frames are multiplied by a matrix of cosines and sines. The program then finds peaks and sums frequency bands.
"""

from itertools import pairwise

import numpy as np

FRAME, HOP, RATE = 256, 64, 8000


def signal(count, rng):
    t = np.arange(count) / RATE
    sweep = np.sin(2 * np.pi * (200 * t + 150 * t * t))
    tone = 0.5 * np.sin(2 * np.pi * 1000 * t) * (np.sin(2 * np.pi * 2 * t) > 0)
    return sweep + tone + 0.05 * rng.standard_normal(count)


def frames(x):
    count = 1 + (len(x) - FRAME) // HOP
    index = HOP * np.arange(count)[:, None] + np.arange(FRAME)[None, :]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    return x[index] * window


def transform(x):
    k = np.arange(FRAME // 2 + 1)
    angles = 2 * np.pi * np.outer(np.arange(FRAME), k) / FRAME
    return x @ np.cos(angles), -(x @ np.sin(angles))


def main(size):
    x = signal(size, np.random.default_rng(18))
    real, imaginary = transform(frames(x))
    power = real**2 + imaginary**2
    decibels = 10 * np.log10(np.maximum(power, 1e-10))
    decibels = np.maximum(decibels, decibels.max() - 80)
    frequencies = np.arange(FRAME // 2 + 1) * RATE / FRAME
    centroid = (power * frequencies).sum(axis=1) / power.sum(axis=1)
    edges = np.geomspace(100, RATE / 2, 13)
    bands = np.stack([power[:, (frequencies >= a) & (frequencies < b)].sum(axis=1) for a, b in pairwise(edges)])
    flux = np.maximum(np.diff(decibels, axis=0), 0).sum(axis=1)
    return decibels, frequencies[power.argmax(axis=1)], centroid, bands, flux
