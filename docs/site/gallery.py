"""Write the pages of the gallery: a picture, the program, and its times beside NumPy's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.gallery import PROGRAMS, ROOT

TIMES = ROOT / "benchmarks" / "results" / "gallery" / "gallery.json"

# Titles and what there is to see, by program
TEXTS = {
    "black_scholes": (
        "Option prices",
        "The Black-Scholes formula computes the price of an option with logarithms, exponentials and the normal distribution.\n"
        "NumPy needs dozens of loops for the formula, but weft needs only one. There is no such formula for Asian options, so the\n"
        "program estimates their price by simulation. weft draws the same random numbers as NumPy.",
    ),
    "gray_scott": (
        "Gray-Scott patterns",
        "Two substances react and diffuse. Each step reads nine neighbors of a point with `roll`. weft replaces `roll` with index\n"
        "arithmetic, so the shifted arrays are never stored.",
    ),
    "heat": (
        "Heat in a plate",
        "Each time step assigns to slices of the plate and to its borders. weft updates the plate in place. If the plate is large,\n"
        "one kernel computes several time steps.",
    ),
    "image_filters": (
        "Image filters",
        "The program applies a separable Gaussian blur, unsharp masking and an edge filter. weft records all iterations of the\n"
        "loops over the filter weights, so one kernel reads all neighbors of a pixel.",
    ),
    "ising": (
        "The Ising model",
        "The program simulates a magnet near its critical temperature, with the Metropolis algorithm in checkerboard order. An\n"
        "assignment through a boolean mask updates the spins. weft computes the new values for all elements, and stores them where\n"
        "the mask is true.",
    ),
    "k_means": (
        "k-means clustering",
        "The program uses Lloyd's algorithm. A single kernel computes the distances, the nearest center of each point, and the loss.",
    ),
    "lattice_boltzmann": (
        "Flow around a cylinder",
        "The program uses the lattice Boltzmann method with nine velocities. The picture shows the vorticity shortly after the start.",
    ),
    "life": (
        "Game of life",
        "This is Conway's game on a torus. The color of a cell shows its age.",
    ),
    "mandelbrot": (
        "The Mandelbrot set",
        "The program computes escape times, from which it derives smooth colors. It removes the points that have escaped, so its\n"
        "arrays become smaller in each step.",
    ),
    "n_body": (
        "Bodies that attract each other",
        "The program computes the forces between all pairs of bodies, and uses the leapfrog method. NumPy writes the distances of\n"
        "all pairs to memory, but weft does not.",
    ),
    "pagerank": (
        "PageRank",
        "The program applies power iteration to the links of a random web. Most of the time is spent in indexing with arrays and in\n"
        "`bincount`.",
    ),
    "poisson": (
        "Poisson's equation",
        "The program first uses Jacobi iterations, and then successive over-relaxation with checkerboard masks.",
    ),
    "principal_components": (
        "Principal components",
        "The program uses power iteration with deflation. Most of the time is spent in matrix products, which both NumPy and weft\n"
        "compute with the BLAS library.",
    ),
    "ray_marcher": (
        "A ray marcher",
        "Signed distance functions describe spheres, a torus and a floor. The picture shows the distance from the viewer.",
    ),
    "seawater": (
        "Density of seawater",
        "UNESCO's equation of state is a polynomial with dozens of coefficients. weft computes it in one kernel, which reads three\n"
        "numbers per point. The lines in the picture connect points of equal temperature.",
    ),
    "spectrogram": (
        "A spectrogram",
        "The program multiplies windowed frames of a signal by a matrix of sines and cosines. Most of the time is spent in these\n"
        "products, which both NumPy and weft compute with the BLAS library. The picture shows a chirp, and a tone that is switched\n"
        "on and off.",
    ),
    "wave_fdtd": (
        "Electromagnetic waves",
        "The program uses Yee's method in two dimensions, with an absorbing border. Each step updates three fields in place.",
    ),
}
# The reason that is given for programs that are slower than NumPy
SLOWER = (
    "NumPy is faster here, because most of the time is spent in random memory accesses and in library calls, which fusion does "
    "not speed up."
)


def read_times() -> dict[str, dict[str, Any]]:
    """Return the measured times of each program."""
    measured = json.loads(TIMES.read_text(encoding="utf-8"))
    how = f"CPU times on one core of {measured['machine'].removeprefix('CPU: ')}, with NumPy {measured['numpy']}"
    return {result["program"]: result | {"how": how} for result in measured["results"]}


def show_ms(seconds: float) -> str:
    """Format a time in milliseconds with three digits."""
    return f"{1e3 * seconds:,.0f} ms" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"


def time_table(result: dict[str, Any] | None) -> str:
    """Return the table of a program's times."""
    if result is None:
        return "The times of this program have not been measured.\n"
    rows = [
        f"| `main({result['size']:_})` | NumPy | weft |",
        "| --- | ---: | ---: |",
        f"| first call, empty cache | {show_ms(result['first call, NumPy'])} | {show_ms(result['first call, empty cache'])} |",
        f"| first call, filled cache | {show_ms(result['first call, NumPy'])} | {show_ms(result['first call, filled cache'])} |",
        f"| warm | {show_ms(result['numpy'])} | {show_ms(result['weft'])} |",
    ]
    ratio = result["ratio"]
    verdict = f"When warm, weft is {ratio:.3g} times as fast as NumPy." if ratio >= 1 else SLOWER
    return "\n".join(rows) + f"\n\n{verdict} The table contains {result['how']}.\n"


def program_page(name: str, result: dict[str, Any] | None) -> str:
    """Return the page of a program."""
    title, text = TEXTS[name]
    shown = PROGRAMS[name]
    return (
        f"# {title}\n\n{text}\n\n![{title}]({name}.png)\n\n{time_table(result)}\n"
        f"The picture shows the result of `main({shown.picture})`, which ran on weft when this page was built.\n\n"
        f"## The program\n\nThe program uses only NumPy. To run the program on weft, add a line that calls `main`, and run the file with `weft run`.\n\n"
        f"```{{literalinclude}} ../../../../{shown.folder}/{name}.py\n:language: python\n```\n"
    )


def index_page(results: dict[str, dict[str, Any]]) -> str:
    """Return the start page of the gallery."""
    cards = []
    for name, (title, _) in sorted(TEXTS.items(), key=lambda item: item[1][0]):
        ratio = results.get(name, {}).get("ratio")
        speed = f"{ratio:.2g} times NumPy's speed" if ratio else ""
        cards.append(
            f":::{{grid-item-card}} {title}\n:link: {name}\n:link-type: doc\n:img-top: {name}.png\n\n{speed}\n:::\n"
        )
    listed = "\n".join(name for name, _ in sorted(TEXTS.items(), key=lambda item: item[1][0]))
    return (
        f"# Gallery\n\nThe gallery contains {len(TEXTS)} short NumPy programs, with pictures, and with run times for NumPy and weft.\n"
        "The speed below each picture is the speed of a repeated call. Each page describes the measurement.\n\n"
        "::::{grid} 1 2 3 3\n:gutter: 3\n\n" + "\n".join(cards) + "\n::::\n\n"
        "`python -m benchmarks --device cpu --suite gallery --out FOLDER` measures the times again.\n\n"
        f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    )


def gallery_pages() -> dict[str, str]:
    """Return the pages of the gallery by name."""
    results = read_times()
    pages = {name: program_page(name, results.get(name)) for name in TEXTS}
    pages["index"] = index_page(results)
    return pages


def draw_pictures(folder: Path) -> None:
    """Draw the pictures in a process of their own."""
    subprocess.run([sys.executable, "-m", "docs.site.pictures", str(folder)], check=True, cwd=ROOT)
