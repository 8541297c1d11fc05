"""Helpers for the reports of suites: files, Markdown tables and geometric means."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def write(folder: Path | None, name: str, text: str) -> None:
    """Write a file to the results folder, or do nothing if `folder` is None."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def write_json(folder: Path | None, name: str, found: Mapping[str, Any]) -> None:
    """Write a JSON file to the results folder, or do nothing if `folder` is None."""
    write(folder, name, json.dumps(found, indent=1) + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def bullets(items: Mapping[str, Any]) -> str:
    """Return a Markdown list of names and values."""
    return "".join(f"- {name}: {value}\n" for name, value in items.items())


def one_line(facts: Mapping[str, Any]) -> str:
    """Return the facts about the machine as one line of text."""
    return ", ".join(f"{name} {value}" for name, value in facts.items()) + "\n"


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of ratios, or NaN if there are none."""
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else math.nan
