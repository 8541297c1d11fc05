"""Image blurring, sharpening and edge detection, with a separable Gaussian filter and finite differences."""

import numpy as np


def scene(size):
    """Return a noisy image of overlapping discs."""
    rng = np.random.default_rng(12)
    y, x = np.mgrid[0 : 1 : size * 1j, 0 : 1 : size * 1j]
    image = 0.3 + 0.2 * x
    for _ in range(12):
        a, b, radius, gray = rng.random(4)
        image = np.where((x - a) ** 2 + (y - b) ** 2 < (0.05 + 0.15 * radius) ** 2, gray, image)
    return image + 0.05 * rng.standard_normal((size, size))


def blur(image, sigma):
    radius = int(3 * sigma)
    offsets = np.arange(-radius, radius + 1)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2)
    weights = weights / weights.sum()
    padded = np.pad(image, radius, mode="edge")
    height, width = image.shape
    rows = np.zeros((height + 2 * radius, width))
    for k in range(2 * radius + 1):
        rows += weights[k] * padded[:, k : k + width]
    result = np.zeros((height, width))
    for k in range(2 * radius + 1):
        result += weights[k] * rows[k : k + height, :]
    return result


def main(size):
    image = scene(size)
    soft = blur(image, 2.0)
    sharp = np.clip(image + 1.5 * (image - soft), 0, 1)
    edges = np.hypot(soft[1:-1, 2:] - soft[1:-1, :-2], soft[2:, 1:-1] - soft[:-2, 1:-1])
    return image, soft, sharp, edges
