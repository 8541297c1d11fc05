"""The Mandelbrot set with smooth colors, computed only for the points that have not escaped."""

import numpy as np

ITERATIONS = 60


def escape_times(c):
    z = np.zeros_like(c)
    counts = np.zeros(c.shape, dtype=np.int64)
    smooth = np.zeros(c.shape)
    inside = np.ones(c.shape, dtype=bool)
    for k in range(ITERATIONS):
        z[inside] = z[inside] ** 2 + c[inside]
        escaped = inside & (np.abs(z) > 4)
        counts[escaped] = k
        smooth[escaped] = k + 1 - np.log2(np.log(np.abs(z[escaped])))
        inside &= ~escaped
    counts[inside] = ITERATIONS
    return counts, smooth, inside


def colors(smooth, inside):
    hue = smooth / ITERATIONS
    image = np.stack([np.sqrt(np.abs(hue)), hue, np.abs(np.sin(np.pi * hue))], axis=-1)
    image[inside] = 0
    return (255 * np.clip(image, 0, 1)).astype(np.uint8)


def main(size):
    x = np.linspace(-2.2, 0.8, size)
    y = np.linspace(-1.2, 1.2, size * 4 // 5)
    counts, smooth, inside = escape_times(x[None, :] + 1j * y[:, None])
    image = colors(smooth, inside)
    return counts, image, inside.mean()
