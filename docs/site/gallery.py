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
        "The Black-Scholes formula expresses the price of an option in terms of logarithms, exponentials and the normal distribution.\n"
        "NumPy evaluates the formula in dozens of loops, whereas weft uses a single loop. Arithmetic-average\n"
        "Asian options have no closed-form price, so the program estimates the price of such an option by simulation. weft\n"
        "generates the same random numbers as NumPy.",
    ),
    "gray_scott": (
        "Gray-Scott patterns",
        "The program simulates two substances that react and diffuse. Each time step uses `roll` to read the neighbors of\n"
        "each point. weft replaces `roll` with index arithmetic, so the shifted arrays are never stored in memory.",
    ),
    "heat": (
        "Heat in a plate",
        "The program simulates heat conduction with explicit time steps. Each time step first assigns new temperatures to the\n"
        "interior of the plate, and then to the four edges. weft updates the plate in place. If the plate is large, one kernel\n"
        "computes several time steps.",
    ),
    "image_filters": (
        "Image filters",
        "The program applies a separable Gaussian blur, unsharp masking and an edge filter to an image. The\n"
        "blur filters the image along each axis with a loop over the filter weights. weft records all iterations of the loop, so a\n"
        "single kernel filters the image along an axis.",
    ),
    "ising": (
        "The Ising model",
        "The program uses the Metropolis algorithm to simulate a magnet near its critical temperature. The program updates the\n"
        "spins in checkerboard order, by assignments through a boolean mask. If the mask selects many spins, weft computes a new\n"
        "value for every spin, and stores the new values where the mask is true.",
    ),
    "k_means": (
        "k-means clustering",
        "The program clusters points with Lloyd's algorithm. The kernel that finds the nearest center for each point also computes\n"
        "the distances between points and centers, so weft never stores the distances in memory.",
    ),
    "lattice_boltzmann": (
        "Flow around a cylinder",
        "The program uses the lattice Boltzmann method with nine velocities to simulate the flow of a fluid around a cylinder. The\n"
        "picture shows the vorticity of the flow shortly after the start of the simulation.",
    ),
    "life": (
        "Game of Life",
        "The program simulates Conway's Game of Life on a torus. The color of each cell shows the age of the cell.",
    ),
    "mandelbrot": (
        "The Mandelbrot set",
        "The program computes the escape time of each point, and derives smooth colors from the escape times. Each iteration\n"
        "processes only the points that have not escaped yet, so the arrays shrink from iteration to iteration.",
    ),
    "n_body": (
        "Gravitational n-body simulation",
        "The program computes the forces between all pairs of bodies, and moves the bodies with the leapfrog method. NumPy stores\n"
        "the distances of all pairs of bodies in memory, whereas weft never stores the distances.",
    ),
    "pagerank": (
        "PageRank",
        "The program uses power iteration to rank the pages of a randomly generated web. Each iteration gathers values by\n"
        "integer-array indexing and adds them up with `np.add.at`.",
    ),
    "poisson": (
        "Poisson's equation",
        "The program solves Poisson's equation first by Jacobi iteration and then by successive over-relaxation. During\n"
        "over-relaxation, masks select the points in checkerboard order.",
    ),
    "principal_components": (
        "Principal components",
        "The program computes principal components by power iteration with deflation. Matrix products account for most of the run\n"
        "time. Both NumPy and weft compute matrix products with BLAS.",
    ),
    "ray_marcher": (
        "A ray marcher",
        "The program renders a scene of spheres, a torus and a floor. Signed distance functions describe the shapes. For each\n"
        "pixel, the picture shows the distance from the viewer to the nearest surface.",
    ),
    "seawater": (
        "Density of seawater",
        "UNESCO's equation of state for the density of seawater consists of polynomials with dozens of coefficients. In a single\n"
        "kernel, weft computes the temperature, the salinity and the density at each point of the grid. The lines in the picture\n"
        "connect points of equal temperature.",
    ),
    "spectrogram": (
        "A spectrogram",
        "The program multiplies windowed frames of a signal by a matrix of sines and cosines. Matrix products account for most of\n"
        "the run time. Both NumPy and weft compute matrix products with BLAS. The picture shows a chirp, and a tone that is\n"
        "switched on and off.",
    ),
    "wave_fdtd": (
        "Electromagnetic waves",
        "The program simulates electromagnetic waves in two dimensions with Yee's method and an absorbing boundary. Each step updates three\n"
        "fields in place.",
    ),
}
# The reason that is given for programs that are slower than NumPy
SLOWER = (
    "This program runs faster with NumPy than with weft. The program spends most of its time in random memory accesses and in "
    "library routines, which fusion does not accelerate."
)


def read_times() -> dict[str, dict[str, Any]]:
    """Return the measured times of each program."""
    measured = json.loads(TIMES.read_text(encoding="utf-8"))
    how = f"CPU times on one core ({measured['machine'].removeprefix('CPU: ')}, NumPy {measured['numpy']})"
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
    verdict = f"In warm calls, weft is {ratio:.3g} times as fast as NumPy." if ratio >= 1 else SLOWER
    return "\n".join(rows) + f"\n\n{verdict} The table shows {result['how']}.\n"


def program_page(name: str, result: dict[str, Any] | None) -> str:
    """Return the page of a program."""
    title, text = TEXTS[name]
    shown = PROGRAMS[name]
    return (
        f"# {title}\n\n{text}\n\n![{title}]({name}.png)\n\n{time_table(result)}\n"
        f"The picture shows the result of `main({shown.picture})`, which weft computed when this page was built.\n\n"
        f"## The program\n\nThe program uses only NumPy. To run the program on weft, add a line that calls `main`, and run the file with `weft run`.\n\n"
        f"```{{literalinclude}} ../../../../{shown.folder}/{name}.py\n:language: python\n```\n"
    )


def index_page(results: dict[str, dict[str, Any]]) -> str:
    """Return the start page of the gallery."""
    cards = []
    for name, (title, _) in sorted(TEXTS.items(), key=lambda item: item[1][0]):
        ratio = results.get(name, {}).get("ratio")
        speed = f"{ratio:.2g} times as fast as NumPy" if ratio else ""
        cards.append(
            f":::{{grid-item-card}} {title}\n:link: {name}\n:link-type: doc\n:img-top: {name}.png\n\n{speed}\n:::\n"
        )
    listed = "\n".join(name for name, _ in sorted(TEXTS.items(), key=lambda item: item[1][0]))
    return (
        f"# Gallery\n\nThe gallery contains {len(TEXTS)} short NumPy programs, pictures of their results, and their run times with NumPy and\n"
        "with weft. The speed below each picture was measured in warm calls. The page of each program lists all measured times.\n\n"
        "::::{grid} 1 2 3 3\n:gutter: 3\n\n" + "\n".join(cards) + "\n::::\n\n"
        "To repeat the measurements, run `python -m benchmarks --device cpu --suite gallery --out FOLDER`.\n\n"
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
