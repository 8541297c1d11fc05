"""Write the examples' input files, picture.pgm and measurements.csv, which are in the public domain."""

from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def make_picture() -> None:
    """Write picture.pgm: rings and a checkerboard with noise, 256 x 192 pixels."""
    y, x = np.mgrid[0:192, 0:256]
    rings = 127 + 90 * np.cos(np.hypot(x - 90, y - 100) ** 1.5 / 60)
    board = 40 * (((x // 24) + (y // 24)) % 2)
    noise = np.random.default_rng(1).normal(0, 6, x.shape)
    pixels = np.clip(0.75 * rings + board + noise, 0, 255).astype(np.uint8)
    (HERE / "picture.pgm").write_bytes(b"P5\n256 192\n255\n" + pixels.tobytes())


def make_table() -> None:
    """Write measurements.csv: three clusters of 150 points each, with four columns."""
    source = np.random.default_rng(2)
    centers = np.array([[5.0, 3.4, 1.5, 0.3], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
    rows = np.vstack([c + source.normal(0, [0.4, 0.3, 0.3, 0.15], (150, 4)) for c in centers])
    np.savetxt(HERE / "measurements.csv", rows, "%.3f", ",", header="length,width,height,depth", comments="")


make_picture()
make_table()
