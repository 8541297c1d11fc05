"""Draw a curve, a histogram, contours, an image and points."""

import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np


def main():
    rng = np.random.default_rng(35)
    figure, axes = plt.subplots(2, 2)
    x = np.linspace(0, 2 * np.pi, 400)
    y = np.sin(x**2)
    (line,) = axes[0, 0].plot(x, y)
    axes[0, 0].fill_between(x, y, 0, where=y > 0)
    print(np.round(line.get_xydata()[::100], 5).tolist(), np.round(axes[0, 0].get_ylim(), 4))
    counts, edges, _ = axes[0, 1].hist(rng.normal(size=1_000), bins=20)
    print(counts, np.round(edges[:3], 4))
    gx, gy = np.meshgrid(np.linspace(-3, 3, 80), np.linspace(-2, 2, 60))
    z = np.exp(-(gx**2) - gy**2) - np.exp(-((gx - 1) ** 2) - (gy - 1) ** 2)
    contours = axes[1, 0].contour(gx, gy, z, levels=np.linspace(-0.8, 0.8, 9))
    print([len(path.vertices) for path in contours.get_paths()])
    shown = axes[1, 1].imshow(z, cmap="viridis")
    print(np.round(shown.get_clim(), 5), np.round(shown.to_rgba(z)[::30, ::40, 0], 4))
    axes[1, 1].scatter(rng.random(200), rng.random(200), c=rng.random(200), s=20 * rng.random(200))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="raw", dpi=50)
    pixels = np.frombuffer(buffer.getvalue(), np.uint8)
    print(pixels.size, int(pixels.astype(int).sum()))
    plt.close(figure)


if __name__ == "__main__":
    main()
