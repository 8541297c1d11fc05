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
        "The Black-Scholes formula gives the price of an option from logarithms, exponentials and the normal distribution. NumPy\n"
        "runs it as dozens of loops, weft as one. Asian options have no formula, so they are simulated: the random numbers are\n"
        "those of NumPy's generator.",
    ),
    "gray_scott": (
        "Gray-Scott patterns",
        "Two substances react and diffuse. Each step reads nine neighbors through `roll`, which weft turns into plain indices.",
    ),
    "heat": (
        "Heat in a plate",
        "A time step assigns to slices of the plate, and to its borders. weft updates the plate in place, and computes several\n"
        "steps of a large plate in one kernel.",
    ),
    "image_filters": (
        "Image filters",
        "A separable Gaussian blur, unsharp masking and edges. The loops over the weights are recorded as a whole, so one kernel\n"
        "reads all neighbors of a pixel.",
    ),
    "ising": (
        "The Ising model",
        "A magnet near its critical point, by the Metropolis algorithm in checkerboard order. The program assigns through a\n"
        "boolean mask, which weft computes for all elements without selecting any.",
    ),
    "k_means": (
        "k-means clustering",
        "Lloyd's algorithm. Distances, the choice of the nearest center and the loss share a kernel.",
    ),
    "lattice_boltzmann": (
        "Flow around a cylinder",
        "The lattice Boltzmann method with nine velocities. The picture shows the vorticity shortly after the start.",
    ),
    "life": (
        "Game of life",
        "Conway's game on a torus, with the age of each cell as its color.",
    ),
    "mandelbrot": (
        "The Mandelbrot set",
        "Escape times with smooth colors. The program drops points that have escaped, so its arrays shrink in each step.",
    ),
    "n_body": (
        "Bodies that attract each other",
        "All pairs of bodies, by the leapfrog method. NumPy writes the distances of all pairs to memory. weft never does.",
    ),
    "pagerank": (
        "PageRank",
        "Power iteration over the links of a random web. The work is scattered reads and `bincount`.",
    ),
    "poisson": (
        "Poisson's equation",
        "Jacobi iterations, then successive over-relaxation with checkerboard masks.",
    ),
    "principal_components": (
        "Principal components",
        "Power iteration with deflation. Most of the work is in matrix products, which both sides leave to the BLAS library.",
    ),
    "ray_marcher": (
        "A ray marcher",
        "Signed distance functions describe spheres, a torus and a floor. The picture shows the distance to the eye.",
    ),
    "seawater": (
        "Density of seawater",
        "UNESCO's equation of state: a polynomial with dozens of coefficients. It is one kernel that reads three numbers a point.\n"
        "The lines are temperatures.",
    ),
    "spectrogram": (
        "A spectrogram",
        "Windowed frames of a signal are multiplied by a matrix of sines and cosines. Most of the time is in these products, which\n"
        "both sides leave to the BLAS library. The picture shows a chirp, and a tone that is switched on and off.",
    ),
    "wave_fdtd": (
        "Electromagnetic waves",
        "Yee's method in the plane, with an absorbing border. Each step updates three fields in place.",
    ),
}
# The reason that is given for programs that are slower than NumPy
SLOWER = (
    "NumPy is faster here: the program's time is in random access and library calls, which fusion does not shorten."
)


def read_times() -> dict[str, dict[str, Any]]:
    """Return the measured times of each program."""
    measured = json.loads(TIMES.read_text(encoding="utf-8"))
    how = f"processor times on one core of {measured['machine'].removeprefix('CPU: ')}, with NumPy {measured['numpy']}"
    return {result["program"]: result | {"how": how} for result in measured["results"]}


def show_ms(seconds: float) -> str:
    """Format a time in milliseconds with three digits."""
    return f"{1e3 * seconds:,.0f} ms" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"


def time_table(result: dict[str, Any] | None) -> str:
    """Return the table of a program's times."""
    if result is None:
        return "There are no measured times of this program.\n"
    rows = [
        f"| `main({result['size']:_})` | NumPy | weft |",
        "| --- | ---: | ---: |",
        f"| first call, empty cache | {show_ms(result['first call, NumPy'])} | {show_ms(result['first call, empty cache'])} |",
        f"| first call, filled cache | {show_ms(result['first call, NumPy'])} | {show_ms(result['first call, filled cache'])} |",
        f"| warm | {show_ms(result['numpy'])} | {show_ms(result['weft'])} |",
    ]
    ratio = result["ratio"]
    verdict = f"Warm, weft has {ratio:.3g} times NumPy's speed." if ratio >= 1 else SLOWER
    return "\n".join(rows) + f"\n\n{verdict} These are {result['how']}.\n"


def program_page(name: str, result: dict[str, Any] | None) -> str:
    """Return the page of a program."""
    title, text = TEXTS[name]
    shown = PROGRAMS[name]
    return (
        f"# {title}\n\n{text}\n\n![{title}]({name}.png)\n\n{time_table(result)}\n"
        f"The picture is drawn from `main({shown.picture})`, which ran on weft when this page was built.\n\n"
        f"## The program\n\nThis is plain NumPy. Add a line that calls `main`, and `weft run` runs the file on weft.\n\n"
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
        f"# Gallery\n\n{len(TEXTS)} short programs in plain NumPy, with pictures and with their times on NumPy and on weft.\n"
        "The speed below a picture is that of a repeated call. Each page describes how it was measured.\n\n"
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
