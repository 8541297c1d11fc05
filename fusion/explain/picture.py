"""Pictures of explanations: an SVG drawing of a plan, and HTML for notebooks.

No other program is needed.

In: the descriptions of a plan's kernels. Out: SVG or HTML text. Invariant: text from the user's program is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.fusion.explain.explanation import Explanation, KernelNote

WIDTH, LINE, GAP, MARGIN = 510, 16, 46, 12
CHARACTERS = 72  # characters per line of a box


@dataclass(slots=True)
class Box:
    """A rectangle with lines of text in a picture of a plan."""

    lines: list[str]
    kind: str
    x: float = 0.0
    y: float = 0.0

    @property
    def height(self) -> int:
        """The height of the box in pixels."""
        return LINE * len(self.lines) + 12


def draw_plan(explanation: Explanation, numbers: Sequence[int] = ()) -> str:
    """Return an SVG picture of a plan, as `Explanation.svg` describes it."""
    notes = explanation.kernels
    made: dict[str, int] = {name: k for k, note in enumerate(notes) for name in note.writes}
    depth: list[int] = []  # each kernel's row in the picture, below the rows of all kernels from which it reads
    for k, note in enumerate(notes):
        before = [depth[made[name]] for name in note.reads if name in made and made[name] < k]
        depth.append(1 + max(before, default=0))
    shown = numbers or range(1, len(notes) + 1)
    boxes = {f"kernel {k}": Box(_lines(shown[k], note), "kernel") for k, note in enumerate(notes)}
    levels: dict[str, int] = {f"kernel {k}": depth[k] for k in range(len(notes))}
    edges: dict[tuple[str, str], list[str]] = {}  # (from box, to box) -> names of the arrays that are passed
    read: set[str] = set()
    for k, note in enumerate(notes):
        for name in note.reads:
            read.add(name)
            source = f"kernel {made[name]}" if name in made else f"array {name}"
            if name not in made and source not in boxes:
                boxes[source] = Box([name], "input")
                levels[source] = 0
            edges.setdefault((source, f"kernel {k}"), []).extend([name] if name in made else [])
    last = max(levels.values(), default=0) + 1
    for name, k in made.items():
        if name not in read or name.startswith("y"):
            boxes[f"array {name}"] = Box([name], "output")
            levels[f"array {name}"] = last
            edges[f"kernel {k}", f"array {name}"] = []
    width, height = _arrange_boxes(boxes, levels)
    number = min(shown, default=0)  # each picture on a page has its own arrowheads
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11">',
        f'<defs><marker id="end-{number}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>',
        '<rect width="100%" height="100%" rx="8" fill="#fff"/>',  # labels stay readable on a dark page
    ]
    parts += [_edge(boxes[a], boxes[b], ", ".join(labels), f"end-{number}") for (a, b), labels in edges.items()]
    parts += [_box(box) for box in boxes.values()]
    return "\n".join([*parts, "</svg>"])


def _lines(number: int, note: KernelNote) -> list[str]:
    lines = [f"[{number}] {note.headline}", *note.formulas[:4]]
    if len(note.formulas) > 4:
        lines.append(f"... and {len(note.formulas) - 4} more")
    lines.append(note.costs)
    return [line if len(line) <= CHARACTERS else line[: CHARACTERS - 3] + "..." for line in lines]


def _arrange_boxes(boxes: dict[str, Box], levels: dict[str, int]) -> tuple[float, float]:
    """Arrange boxes in one centered row for each level, and return the picture's size."""
    rows: dict[int, list[Box]] = {}
    for name, box in boxes.items():
        rows.setdefault(levels[name], []).append(box)
    widths = {level: sum(_width(b) + MARGIN for b in row) + MARGIN for level, row in rows.items()}
    width = max(widths.values(), default=2.0 * MARGIN)
    y = float(MARGIN)
    for level in sorted(rows):
        x = (width - widths[level]) / 2 + MARGIN
        for box in rows[level]:
            box.x, box.y = x, y
            x += _width(box) + MARGIN
        y += max(box.height for box in rows[level]) + GAP
    return width, y - GAP + MARGIN


def _width(box: Box) -> int:
    return WIDTH if box.kind == "kernel" else 26 + 7 * max(len(line) for line in box.lines)


_FILL = {"kernel": "#eef3fb", "input": "#f4f4f4", "output": "#eaf6ea"}


def _box(box: Box) -> str:
    shape = (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{_width(box)}" height="{box.height}" rx="6" '
        f'fill="{_FILL[box.kind]}" stroke="#557"/>'
    )
    texts = [
        f'<text x="{box.x + 8:.1f}" y="{box.y + 4 + LINE * (k + 0.75):.1f}">{escape(line)}</text>'
        for k, line in enumerate(box.lines)
    ]
    return shape + "".join(texts)


def _edge(first: Box, second: Box, label: str, end: str) -> str:
    x1, y1 = first.x + _width(first) / 2, first.y + first.height
    x2, y2 = second.x + _width(second) / 2, second.y
    line = f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#555" marker-end="url(#{end})"/>'
    if not label:
        return line
    return line + f'<text x="{(x1 + x2) / 2 + 4:.1f}" y="{(y1 + y2) / 2:.1f}" fill="#555">{escape(label)}</text>'


def show_html(explanation: Explanation) -> str:
    """Return an explanation as HTML for notebooks."""
    head = "".join(
        f"<th style='text-align:left'>{name}</th>"
        for name in ("", "kernel", "members", "boundary", "storage and bytes")
    )
    rows = []
    for k, note in enumerate(explanation.kernels, 1):
        formulas = "<br>".join(f"<code>{escape(formula)}</code>" for formula in note.formulas)
        cells = [str(k), f"{escape(note.title)}<br>{formulas}", escape(", ".join(note.operations))]
        cells += [escape(note.boundary), f"{escape(note.storage)}<br>{escape(note.costs)}"]
        rows.append(
            "<tr>" + "".join(f"<td style='text-align:left;vertical-align:top'>{c}</td>" for c in cells) + "</tr>"
        )
    title = f"<p>{escape(explanation.summary)}</p>"
    if not rows:
        return title
    stages = "".join(
        f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
        for name, text in explanation.stages
    )
    return f"{title}<table><tr>{head}</tr>{''.join(rows)}</table>{draw_plan(explanation)}{stages}"
