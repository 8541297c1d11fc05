"""Write the page of measured speeds from the JSON files in ``benchmarks/results``."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
HEAD = """# Performance

This page shows the results in the `benchmarks/results` folder. [Measure a program](guide/measuring.md) lists the commands that repeat the
measurements. Except in the section [On a GPU](#on-a-gpu), the programs ran on two CPU cores.

A *warm* time is the time of a repeated call in the same process. A *cold* time is the time of the first call in a new process.
Cold times are measured both with an empty and with a filled disk cache of compiled kernels. Before a program is measured, the results of
the program are compared with NumPy's results. The measurements alternate between NumPy, weft and the other libraries, so that other load on
the machine affects all libraries equally. All times are medians of repeated measurements.
"""


def load(name: str) -> dict[str, Any]:
    """Return the contents of a JSON file of results."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def machine(facts: dict[str, Any]) -> str:
    """Return a sentence about the machine and the versions."""
    driver = f", driver {facts['driver']}" if facts.get("driver") else ""
    versions = f"NumPy {facts['numpy']}, Python {facts['python']}{driver}"
    return f"These results were measured on {facts['date']} ({facts['machine']}, {versions})."


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
        "\n## On a GPU\n\nThe following table shows the warm times of the ten large programs and of four more programs on a GPU. Each time\n"
        "includes both the launches and the execution of the kernels. NumPy runs on the CPU of the same machine. The *best peer*\n"
        "of a program is the fastest of CuPy, JAX, PyTorch and torch.compile. The times of hand-written CUDA C++ kernels are for comparison\n"
        f"only. On average (geometric mean), weft is {said['geometric mean, best peer / weft']:.2f} times as fast as the best peer. In\n"
        f"{said['at least as fast as the best peer']} of {said['programs']} programs, weft is at least as fast as the best peer. weft\n"
        "records the operations of a program again in every call. In programs that perform hundreds of operations (for\n"
        "example, Mandelbrot), "
        f"recording the operations takes longer than running the kernels. {machine(found)}\n\n"
        + peers_table(found, 2, "CuPy", "JAX", "torch", "torch.compile", "CUDA C++")
        + "\n\n![Memory throughput of the programs on a GPU](../benchmarks/results/cuda/fused-cuda-0.svg)\n"
    )


def large_programs() -> str:
    """Return the section about large programs. Its table compares the times of weft with those of NumPy and other libraries."""
    found = load("cpu/fused-2")
    said = found["summary"]
    return (
        "\n## Large programs\n\nThe following table shows the warm times of ten programs on arrays of millions of elements. The *peers* are\n"
        "libraries other than NumPy. For each peer, the programs were rewritten with the functions of the peer. The *best peer* of\n"
        "a program is the peer that runs the program fastest. On average (geometric mean), weft is\n"
        f"{said['geometric mean, NumPy / weft']:.1f} times as fast as NumPy, and {said['geometric mean, best peer / weft']:.2f} times as\n"
        f"fast as the best peer. {machine(found)}\n\n"
        + peers_table(found, 1, "numexpr", "Numba", "JAX", "torch.compile")
        + "\n\n![Memory throughput of the programs](../benchmarks/results/cpu/fused-2.svg)\n"
    )


def npbench(preset: str, table: bool) -> str:
    """Return the section about NPBench at one preset."""
    found = load(f"npbench/npbench-{preset}")
    said = found["summary"]
    ratios = {result["program"]: result["ratio"] for result in found["results"] if result.get("ratio")}
    text = (
        f"\n### Preset {preset}\n\nIn warm calls, weft is {said['warm, geometric mean of NumPy / weft']:.2f} times as fast as NumPy (geometric\n"
        f"mean), and is faster than NumPy in {said['warm, programs faster than NumPy']} programs. If the disk cache is empty, a cold\n"
        f"call takes {said['first call, empty cache, geometric mean of weft / NumPy']:.2f} times as long with weft as with NumPy. If\n"
        f"the disk cache is filled, a cold call takes {said['first call, filled cache, geometric mean of weft / NumPy']:.2f} times as\n"
        f"long with weft as with NumPy. {machine(found)}\n\n"
    )
    if table:
        rows = [
            "| program | NumPy (ms) | weft (ms) | NumPy / weft | weft, cold, empty cache (ms) | weft, cold, filled cache (ms) |"
        ]
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
        "\n## Where NumPy is faster\n\nThe following programs run faster with NumPy than with weft. The number after each program is\n"
        "weft's speed divided by NumPy's speed (1.00 means slightly less than 1).\n\n"
        f"- NPBench, preset S: {slower(load('npbench/npbench-S'))}\n"
        f"- NPBench, preset M: {slower(load('npbench/npbench-M'))}\n"
        f"- Classical programs with typical sizes: {slower(load('classical/classical'))}\n"
        f"- Loops over elements of large arrays: {slower(load('elements/elements'))}\n\n"
        "Programs that run faster with NumPy typically use small arrays, need a result in each iteration, or mainly call library functions\n"
        "such as matrix products. [Small arrays](guide/small_arrays.md) and [What the first run costs](guide/first_run.md)\n"
        "describe programs that use small arrays or run only a few times.\n"
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
        "\n## Small arrays\n\nThe following table shows NumPy's time divided by weft's time for single statements on small arrays. weft\n"
        "executes statements on small arrays immediately.\n"
        f"{machine(found)}\n\n" + "\n".join(rows) + "\n"
    )


def measured_page() -> str:
    """Return the page of measured speeds."""
    classical = load("classical/classical")
    said = classical["summary"]
    return (
        HEAD
        + large_programs()
        + "\n## NPBench\n\nNPBench is a set of 54 programs from scientific computing. weft runs the NumPy versions of these programs without changes.\n"
        + npbench("M", table=True)
        + npbench("S", table=False)
        + "\n## Classical programs\n\nThis benchmark contains 24 well-known numerical programs with arrays of typical sizes. In warm calls,\n"
        f"weft is {said['warm, geometric mean of NumPy / weft']:.2f} times as fast as NumPy (geometric mean), and is faster than NumPy\n"
        f"in {said['warm, programs faster than NumPy']} programs. The [gallery](gallery/index.md) contains some of the classical\n"
        "programs, with larger arrays.\n\n"
        "![Classical programs](../benchmarks/results/classical/classical.svg)\n"
        + on_a_gpu()
        + where_numpy_is_faster()
        + small_arrays()
    )
