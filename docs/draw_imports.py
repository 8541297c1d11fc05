"""Draw the layers, their folders and the imports between them: ``python docs/draw_imports.py`` writes ``docs/architecture.svg``.

Each box represents a folder, and shows the number of its modules and lines. The boxes of a layer form a row. The rows are
in the order of the layers, from the highest to the lowest. The width of a line between two boxes is proportional to the
number of imports, including imports inside functions.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = {
    "dsl": "the user interface",
    "fusion": "expressions to plans of kernels",
    "codegen": "kernel IR to object code",
    "runtime": "devices, memory, launches",
}
WIDTH, LEFT, HEIGHT, BOX = 1180, 150, 150, 60


def modules() -> dict[str, Path]:
    """Return the paths of all modules of the four layers, by dotted name."""
    return {
        "weft." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path
        for layer in LAYERS
        for path in sorted((ROOT / layer).rglob("*.py"))
    }


def folder_of(path: Path) -> str:
    """Return the folder of a module, with at most two levels, such as ``dsl/kernel``."""
    return "/".join(path.relative_to(ROOT).parts[:-1][:2])


def imports(path: Path, known: dict[str, Path]) -> list[Path]:
    """Return the paths of the weft modules that a module imports."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [known.get(name) or known.get(node.module) for name in names]
        elif isinstance(node, ast.Import):
            found += [known.get(alias.name) for alias in node.names]
    return [each for each in found if each is not None]


def draw() -> str:
    """Return the picture as SVG."""
    known = modules()
    folders: dict[str, list[Path]] = {}
    for path in known.values():
        folders.setdefault(folder_of(path), []).append(path)
    between = Counter(
        (folder_of(path), folder_of(other))
        for path in known.values()
        for other in imports(path, known)
        if folder_of(path) != folder_of(other)
    )
    boxes: dict[str, tuple[float, float, float]] = {}
    for row, layer in enumerate(LAYERS):
        own = [folder for folder in folders if folder.split("/")[0] == layer]
        step = (WIDTH - LEFT) / len(own)
        for k, folder in enumerate(own):
            boxes[folder] = (LEFT + k * step, 20.0 + row * HEIGHT, step - 14)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(LAYERS)}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT * len(LAYERS)}" fill="white"/>',
    ]
    for (one, other), count in sorted(between.items()):
        (x, y, width), (u, v, wide) = boxes[one], boxes[other]
        if y == v:
            continue  # imports within a layer are not drawn
        out.append(
            f'<line x1="{x + width / 2:.0f}" y1="{y + BOX:.0f}" x2="{u + wide / 2:.0f}" y2="{v:.0f}" '
            f'stroke="#4477aa" stroke-opacity="0.45" stroke-width="{min(0.5 + count / 8, 9):.1f}"/>'
        )
    for row, (layer, does) in enumerate(LAYERS.items()):
        out.append(f'<text x="8" y="{44 + row * HEIGHT}" font-size="17" font-weight="bold">{layer}</text>')
        for k, line in enumerate(does.split(" to ")):
            out.append(f'<text x="8" y="{62 + row * HEIGHT + 14 * k}" font-size="11">{"to " * (k > 0)}{line}</text>')
    for folder, (x, y, width) in boxes.items():
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folders[folder])
        name = folder.partition("/")[2] or "(top level)"
        count = len(folders[folder])
        out += [
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX}" rx="5" fill="#eef3f8" stroke="#335577"/>',
            f'<text x="{x + width / 2:.0f}" y="{y + 22:.0f}" font-size="14" text-anchor="middle">{name}</text>',
            *(
                f'<text x="{x + width / 2:.0f}" y="{y + at:.0f}" font-size="10" text-anchor="middle" fill="#555">{text}</text>'
                for at, text in (
                    (38, f"{count} module{'s' * (count > 1)}"),
                    (51, f"{round(lines / 100) / 10:g}k lines"),
                )
            ),
        ]
    return "\n".join([*out, "</svg>"]) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "architecture.svg").write_text(draw(), encoding="utf-8")
