"""Image blurring, sharpening and edge detection, with a separable Gaussian filter and finite differences.

The program reads a binary portable graymap (PGM, P5), and tiles the picture to the size of a photograph. If a path is
given for the result, the program writes the sharpened picture.
Usage: image_filter.py [repetitions along each axis] [picture.pgm] [result.pgm]
"""

import os
import sys

import numpy as np


def read_pgm(path):
    with open(path, "rb") as file:
        data = file.read()
    fields = data.split(maxsplit=4)
    width, height = int(fields[1]), int(fields[2])
    return np.frombuffer(data, dtype=np.uint8, offset=len(data) - width * height).reshape(height, width)


def write_pgm(path, pixels):
    height, width = pixels.shape
    with open(path, "wb") as file:
        file.write(b"P5\n%d %d\n255\n" % (width, height))
        file.write(pixels.astype(np.uint8).tobytes())


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


repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 8
source = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "picture.pgm")
image = np.tile(read_pgm(source), (repetitions, repetitions)).astype(np.float64)
soft = blur(image, 2.0)
sharp = np.clip(image + 1.5 * (image - soft), 0, 255)
edges = np.hypot(soft[1:-1, 2:] - soft[1:-1, :-2], soft[2:, 1:-1] - soft[:-2, 1:-1])
print(f"picture of {image.shape[1]} x {image.shape[0]}")
print(
    f"mean {image.mean():.4f}, blurred {soft.mean():.4f}, sharpened {sharp.mean():.4f}, strongest edge {edges.max():.4f}"
)
if len(sys.argv) > 3:
    write_pgm(sys.argv[3], np.rint(sharp))
