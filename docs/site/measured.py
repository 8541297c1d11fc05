"""Write the page of measured speeds from the JSON files in ``benchmarks/results``."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
HEAD = """# Performance

This page is generated from the folder `benchmarks/results`. [Measure a program](guide/measuring.md) has the commands that measure
everything again. Times are from two CPU cores, except those in the section about a GPU.

*Warm* is a repeated call in the same process. *Cold* is the first call in a new process, with an empty cache of compiled kernels, or with a
filled one. Results are compared with NumPy's before a program is measured. The sides take turns, so that other work on the machine affects
all alike. Numbers are medians.
"""


def load(name: str) -> dict[str, Any]:
    """Return the contents of a JSON file of results."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def machine(facts: dict[str, Any]) -> str:
    """Return a sentence about the machine and the versions."""
    return f"Measured on {facts['date']}: {facts['machine']}, NumPy {facts['numpy']}, Python {facts['python']}."


def peers_table(found: dict[str, Any], digits: int, *sides: str) -> str:
    """Return the table of the times of weft and its peers."""
    measured = {side for result in found["results"] for side, times in result["turns_ms"].items() if times}
    shown = [side for side in ("weft", "NumPy", *sides) if side in measured]
    rows = [
        f"| milliseconds | {' | '.join(shown)} | NumPy / weft | best peer / weft |",
        "| --- |" + " ---: |" * (len(shown) + 2),
    ]
    for result in found["results"]:
        turns = {side: median(times) for side, times in result["turns_ms"].items()}
        cells = [f"{turns[side]:.{digits}f}" if side in turns else "-" for side in shown]
        times = f"{turns['NumPy'] / turns['weft']:.1f}" if "NumPy" in turns else "-"
        rows.append(f"| {result['program']} | {' | '.join(cells)} | {times} | {result['ratio']:.2f} |")
    return "\n".join(rows)


def on_a_gpu() -> str:
    """Return the section about a GPU."""
    found = load("cuda/fused-cuda-0")
    said = found["summary"]
    return (
        "\n## On a GPU\n\nThe same programs and four more on a GPU, warm, from the first operation to the end of the last kernel. NumPy\n"
        "runs on the CPU of the same machine. The best peer is the fastest of CuPy, JAX, PyTorch and torch.compile; kernels written by\n"
        f"hand in CUDA C++ do not count. The geometric mean is {said['geometric mean, best peer / weft']:.2f} times the speed of the best\n"
        f"peer. In {said['at least as fast as the best peer']} of {said['programs']} programs, weft is at least as fast. weft records the\n"
        "operations of every call anew. This takes longer than the kernel in programs of hundreds of operations such as the\n"
        f"Mandelbrot set. {machine(found)} Driver {found['driver']}.\n\n"
        + peers_table(found, 2, "CuPy", "JAX", "torch", "torch.compile", "CUDA C++")
        + "\n\n![Bandwidth of the programs on a GPU](../benchmarks/results/cuda/fused-cuda-0.svg)\n"
    )


def large_programs() -> str:
    """Return the section about large programs and peers."""
    found = load("cpu/fused-2")
    said = found["summary"]
    return (
        "\n## Large programs\n\nTen programs on arrays of millions of elements, warm. The peers run the same computation, each in its own\n"
        f"form. The geometric mean is {said['geometric mean, NumPy / weft']:.1f} times NumPy's speed, and\n"
        f"{said['geometric mean, best peer / weft']:.2f} times the speed of the best peer. {machine(found)}\n\n"
        + peers_table(found, 1, "numexpr", "Numba", "JAX", "torch.compile")
        + "\n\n![Bandwidth of the programs](../benchmarks/results/cpu/fused-2.svg)\n"
    )


def npbench(preset: str, table: bool) -> str:
    """Return the section about NPBench at one preset."""
    found = load(f"npbench/npbench-{preset}")
    said = found["summary"]
    ratios = {result["program"]: result["ratio"] for result in found["results"] if result.get("ratio")}
    text = (
        f"\n### Preset {preset}\n\nWarm: {said['warm, geometric mean of NumPy / weft']:.2f} times NumPy's speed (geometric mean);\n"
        f"{said['warm, programs faster than NumPy']} programs are faster. Cold with an empty cache, a call takes\n"
        f"{said['first call, empty cache, geometric mean of weft / NumPy']:.2f} times as long as NumPy's, and with a filled cache\n"
        f"{said['first call, filled cache, geometric mean of weft / NumPy']:.2f} times. {machine(found)}\n\n"
    )
    if table:
        rows = ["| program | NumPy ms | weft ms | NumPy / weft | cold, empty cache ms | cold, filled cache ms |"]
        rows.append("| --- |" + " ---: |" * 5)
        for result in found["results"]:
            numpy, weft = (1e3 * median(result["turns"][side]) for side in ("NumPy", "weft"))
            cold, warm = (1e3 * median(result["first"][side]) for side in ("weft, empty cache", "weft"))
            ratio = ratios[result["program"]]
            rows.append(f"| {result['program']} | {numpy:.3g} | {weft:.3g} | {ratio:.2f} | {cold:.3g} | {warm:.3g} |")
        text += "\n".join(rows) + "\n"
    return text + f"\n![NPBench at preset {preset}](../benchmarks/results/npbench/npbench-{preset}.svg)\n"


def slower(found: dict[str, Any]) -> str:
    """Return the programs that NumPy runs faster, with the ratio."""
    listed = sorted(
        (result["ratio"], result["program"]) for result in found["results"] if (result.get("ratio") or 1) < 1
    )
    return ", ".join(f"{name} ({ratio:.2f})" for ratio, name in listed)


def where_numpy_is_faster() -> str:
    """Return the section about programs that lose."""
    return (
        "\n## Where NumPy is faster\n\nThe number is weft's speed as a multiple of NumPy's.\n\n"
        f"- NPBench, preset S: {slower(load('npbench/npbench-S'))}\n"
        f"- NPBench, preset M: {slower(load('npbench/npbench-M'))}\n"
        f"- classical programs at everyday sizes: {slower(load('classical/classical'))}\n\n"
        "In these programs, the arrays are small, or a value is needed in each iteration, or most of the time is\n"
        "spent in a library call such as a matrix product. [Small arrays](guide/small_arrays.md) and\n"
        "[What the first run costs](guide/first_run.md) describe such cases.\n"
    )


def small_arrays() -> str:
    """Return the section about small arrays."""
    found = load("small/small")
    sizes = sorted({result["elements"] for result in found["results"]})
    rows = [f"| NumPy / weft | {' | '.join(f'{n:,} elements' for n in sizes)} |", "| --- |" + " ---: |" * len(sizes)]
    by_statement: dict[str, dict[int, float]] = {}
    for result in found["results"]:
        by_statement.setdefault(result["statement"], {})[result["elements"]] = result["ratio"]
    for statement, ratios in by_statement.items():
        rows.append(f"| `{statement}` | {' | '.join(f'{ratios[n]:.2f}' if n in ratios else '-' for n in sizes)} |")
    return (
        "\n## Small arrays\n\nSpeed of single statements on small arrays, as a multiple of NumPy's. Such statements are executed immediately.\n"
        f"{machine(found)}\n\n" + "\n".join(rows) + "\n"
    )


def measured_page() -> str:
    """Return the page of measured speeds."""
    classical = load("classical/classical")
    said = classical["summary"]
    return (
        HEAD
        + large_programs()
        + "\n## NPBench\n\n54 programs of scientific computing in NumPy, unmodified.\n"
        + npbench("M", table=True)
        + npbench("S", table=False)
        + "\n## Classical programs\n\n24 programs at everyday sizes: "
        f"{said['warm, geometric mean of NumPy / weft']:.2f} times NumPy's speed when warm (geometric mean), and\n"
        f"{said['warm, programs faster than NumPy']} are faster. The [gallery](gallery/index.md) shows some of them at larger sizes.\n\n"
        "![Classical programs](../benchmarks/results/classical/classical.svg)\n"
        + on_a_gpu()
        + where_numpy_is_faster()
        + small_arrays()
    )
