"""Draw the pictures of the gallery: ``python -m docs.site.pictures FOLDER``. Each program runs on weft.

In: the results of a program's ``main``. Out: a PNG file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from benchmarks.gallery import PROGRAMS
from weft.dsl.script.redirect import load_program

matplotlib.use("Agg")

Results = Sequence[np.ndarray]


def _image(figure: Figure, values: np.ndarray, cmap: str = "viridis", **options: Any) -> None:
    axes = figure.subplots()
    axes.imshow(values, cmap=cmap, **options)
    axes.axis("off")


def _balanced(figure: Figure, values: np.ndarray, share: float = 99.5) -> None:
    """Draw signed values as an image with white at zero.

    The color scale ends at the `share`-th percentile of the magnitudes.
    """
    limit = float(np.percentile(np.abs(values), share)) or 1.0
    _image(figure, values, "RdBu_r", vmin=-limit, vmax=limit)


def black_scholes(figure: Figure, results: Results) -> None:
    axes = figure.subplots()
    axes.hist(results[0], 60, alpha=0.7, label="calls")
    axes.hist(results[1], 60, alpha=0.7, label="puts")
    axes.set(xlabel="price", ylabel="options")
    axes.axvline(float(results[4]), color="black", label="Asian call by Monte Carlo")
    axes.legend()


def filters(figure: Figure, results: Results) -> None:
    for axes, values, title in zip(
        figure.subplots(2, 2).flat, results, ("image", "blurred", "sharpened", "edges"), strict=True
    ):
        axes.imshow(values, cmap="gray")
        axes.set_title(title, fontsize=9)
        axes.axis("off")


def ising(figure: Figure, results: Results) -> None:
    left, right = figure.subplots(1, 2)
    left.imshow(results[0], cmap="gray")
    left.axis("off")
    right.plot(results[1], label="energy")
    right.plot(results[2], label="magnetization")
    right.set(xlabel="sweep")
    right.legend()


def k_means(figure: Figure, results: Results) -> None:
    left, right = figure.subplots(1, 2)
    left.bar(range(len(results[1])), results[1])
    left.set(xlabel="cluster", ylabel="points")
    right.semilogy(results[2], marker=".")
    right.set(xlabel="iteration", title="loss")


def n_body(figure: Figure, results: Results) -> None:
    axes = figure.subplots()
    positions, speeds = results[:2]
    axes.scatter(positions[:, 0], positions[:, 1], s=6, c=np.sqrt((speeds**2).sum(axis=1)), cmap="plasma")
    axes.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", title="color: speed")


def pagerank(figure: Figure, results: Results) -> None:
    axes = figure.subplots()
    axes.loglog(np.sort(results[0])[::-1])
    axes.set(xlabel="page, by rank", ylabel="rank")


def components(figure: Figure, results: Results) -> None:
    axes = figure.subplots()
    axes.bar(range(1, 1 + len(results[0])), results[0])
    axes.set(xlabel="component", ylabel="variance")


def poisson(figure: Figure, results: Results) -> None:
    axes = figure.subplots()
    axes.contourf(results[0], 24, cmap="RdBu_r")
    axes.set_aspect("equal")
    axes.axis("off")


def seawater(figure: Figure, results: Results) -> None:
    axes = figure.subplots()
    drawn = axes.imshow(results[0] - 1000, extent=(-60, 60, 5000, 0), aspect="auto", cmap="viridis_r")
    axes.contour(np.flipud(results[1]), 10, extent=(-60, 60, 5000, 0), colors="white", linewidths=0.6)
    axes.set(xlabel="latitude", ylabel="depth in m")
    figure.colorbar(drawn, label="density minus 1000 kg/m³")


def spectrogram(figure: Figure, results: Results) -> None:
    axes = figure.subplots()
    axes.imshow(results[0].T, aspect="auto", origin="lower", cmap="magma")
    axes.set(xlabel="frame", ylabel="frequency")


DRAW: dict[str, Callable[[Figure, Results], None]] = {
    "black_scholes": black_scholes,
    "gray_scott": lambda figure, results: _image(figure, results[1], "magma"),
    "heat": lambda figure, results: _image(figure, results[0], "inferno"),
    "image_filters": filters,
    "ising": ising,
    "k_means": k_means,
    "lattice_boltzmann": lambda figure, results: _balanced(figure, results[1].T, 99),
    "life": lambda figure, results: _image(figure, np.minimum(results[1], 30), "hot"),
    "mandelbrot": lambda figure, results: _image(figure, results[1]),
    "n_body": n_body,
    "pagerank": pagerank,
    "poisson": poisson,
    "principal_components": components,
    "ray_marcher": lambda figure, results: _image(figure, results[0], "bone_r"),
    "seawater": seawater,
    "spectrogram": spectrogram,
    "wave_fdtd": lambda figure, results: _balanced(figure, results[0]),
}


def draw(name: str, path: Path) -> None:
    """Run a program of the gallery on weft, and draw its results."""
    shown = PROGRAMS[name]
    returned = load_program(shown.path(name), name)["main"](shown.picture)
    figure = Figure(figsize=(5, 3.75), layout="constrained")
    DRAW[name](figure, [np.asarray(value) for value in returned])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight", pad_inches=0.05)  # (no margins beside a square picture)


def main(folder: Path) -> None:
    """Draw all pictures that are missing or older than their program."""
    for name, shown in PROGRAMS.items():
        path = folder / f"{name}.png"
        newest = max(shown.path(name).stat().st_mtime, Path(__file__).stat().st_mtime)
        if not path.exists() or path.stat().st_mtime < newest:
            draw(name, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
