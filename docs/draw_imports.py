"""Draw the layers and their rooms, from the import statements: ``python docs/draw_imports.py`` writes ``docs/architecture.svg``.

A box is a room (a folder of modules) with its number of modules and lines; boxes of a layer stand beside one another, layers below
one another. A line between two rooms is as thick as there are imports, those inside functions included; all of them go down, or
stay in their layer.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = {
    "dsl": "what people write",
    "fusion": "expressions to plans of kernels",
    "codegen": "kernel IR to object code",
    "runtime": "devices, memory, launches",
}
WIDTH, LEFT, HEIGHT, BOX = 1180, 150, 150, 60


def modules() -> dict[str, Path]:
    """Every module of the four layers by its dotted name."""
    return {
        "weft." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path
        for layer in LAYERS
        for path in sorted((ROOT / layer).rglob("*.py"))
    }


def room_of(path: Path) -> str:
    """The folder of a module, of two levels at most: ``dsl/kernel``."""
    return "/".join(path.relative_to(ROOT).parts[:-1][:2])


def imports(path: Path, known: dict[str, Path]) -> list[Path]:
    """The modules of ours that a module imports."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [known.get(name) or known.get(node.module) for name in names]
        elif isinstance(node, ast.Import):
            found += [known.get(alias.name) for alias in node.names]
    return [each for each in found if each is not None]


def draw() -> str:
    """The picture as SVG."""
    known = modules()
    rooms: dict[str, list[Path]] = {}
    for path in known.values():
        rooms.setdefault(room_of(path), []).append(path)
    between = Counter(
        (room_of(path), room_of(other))
        for path in known.values()
        for other in imports(path, known)
        if room_of(path) != room_of(other)
    )
    boxes: dict[str, tuple[float, float, float]] = {}
    for row, layer in enumerate(LAYERS):
        own = [room for room in rooms if room.split("/")[0] == layer]
        step = (WIDTH - LEFT) / len(own)
        for k, room in enumerate(own):
            boxes[room] = (LEFT + k * step, 20.0 + row * HEIGHT, step - 14)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(LAYERS)}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT * len(LAYERS)}" fill="white"/>',
    ]
    for (one, other), count in sorted(between.items()):
        (x, y, width), (u, v, wide) = boxes[one], boxes[other]
        if y == v:
            continue  # inside a layer: the text says how rooms are ordered
        out.append(
            f'<line x1="{x + width / 2:.0f}" y1="{y + BOX:.0f}" x2="{u + wide / 2:.0f}" y2="{v:.0f}" '
            f'stroke="#4477aa" stroke-opacity="0.45" stroke-width="{min(0.5 + count / 8, 9):.1f}"/>'
        )
    for row, (layer, does) in enumerate(LAYERS.items()):
        out.append(f'<text x="8" y="{44 + row * HEIGHT}" font-size="17" font-weight="bold">{layer}</text>')
        for k, line in enumerate(does.split(" to ")):
            out.append(f'<text x="8" y="{62 + row * HEIGHT + 14 * k}" font-size="11">{"to " * (k > 0)}{line}</text>')
    for room, (x, y, width) in boxes.items():
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in rooms[room])
        name = room.partition("/")[2] or "(face)"
        out += [
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX}" rx="5" fill="#eef3f8" stroke="#335577"/>',
            f'<text x="{x + width / 2:.0f}" y="{y + 22:.0f}" font-size="14" text-anchor="middle">{name}</text>',
            *(
                f'<text x="{x + width / 2:.0f}" y="{y + at:.0f}" font-size="10" text-anchor="middle" fill="#555">{text}</text>'
                for at, text in ((38, f"{len(rooms[room])} modules"), (51, f"{round(lines / 100) / 10:g}k lines"))
            ),
        ]
    return "\n".join([*out, "</svg>"]) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "architecture.svg").write_text(draw(), encoding="utf-8")
