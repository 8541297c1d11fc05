"""Pictures of results in SVG, drawn without a plotting library."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

COLOURS = ("#1b6ca8", "#d1495b", "#66a182", "#edae49", "#8d6a9f", "#00798c", "#a44a3f", "#6b705c", "#b5838d")
FONT = 'font-family="sans-serif" font-size="11"'
BAR = 13
LEFT = 250


def _colours(names: Sequence[str]) -> dict[str, str]:
    return {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}


def _picture(width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" {FONT}>'
    return "\n".join([head, f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>', *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{html.escape(text)}</text>'


def draw_bars(groups: Mapping[str, Mapping[str, float]], title: str, unit: str) -> str:
    """Draw a group of horizontal bars for each program, one bar per peer.

    Parameters
    ----------
    groups : mapping of program to mapping of name to value
    """
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    colours = _colours(names)
    top = max((v for values in groups.values() for v in values.values()), default=1.0)
    parts = [_text(10, 18, title)]
    y = 36.0
    for program, values in groups.items():
        parts.append(_text(LEFT - 8, y + BAR * len(values) / 2 + 4, program, "end"))
        for name, value in values.items():
            length = 480 * value / top
            parts.append(
                f'<rect x="{LEFT}" y="{y:.1f}" width="{length:.1f}" height="{BAR - 2}" fill="{colours[name]}"/>'
            )
            parts.append(_text(LEFT + length + 5, y + BAR - 3.5, f"{name} {value:.3g} {unit}", fill="#555"))
            y += BAR
        y += 9
    return _picture(LEFT + 480 + 190, y + 10, parts)


def draw_ratios(groups: Mapping[str, Mapping[str, float]], title: str) -> str:
    """Draw horizontal bars from 1 to each ratio, on a logarithmic axis.

    Bars of ratios above 1 extend to the right.

    Parameters
    ----------
    groups : mapping of program to mapping of name to ratio
    """
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    colours = _colours(names)
    logs = [math.log10(v) for values in groups.values() for v in values.values()]
    low, high = math.floor(min([0.0, *logs])), math.ceil(max([0.0, *logs, 1e-9]))
    wide = 560.0

    def across(ratio: float) -> float:
        return LEFT + wide * (math.log10(ratio) - low) / max(high - low, 1)

    parts, y = [], 48.0
    for program, values in groups.items():
        parts.append(_text(LEFT - 8, y + BAR * len(values) / 2 + 4, program, "end"))
        for name, value in values.items():
            start, end = sorted((across(1.0), across(value)))
            box = f'x="{start:.1f}" y="{y:.1f}" width="{end - start:.1f}" height="{BAR - 2}"'
            parts.append(f'<rect {box} fill="{colours[name]}"/>')
            parts.append(_text(end + 4, y + BAR - 3.5, f"{value:.3g}", fill="#555"))
            y += BAR
        y += 5
    for power in range(low, high + 1):
        x = across(10.0**power)
        parts.append(
            f'<line x1="{x:.1f}" y1="42" x2="{x:.1f}" y2="{y:.1f}" stroke="{"#222" if power == 0 else "#ccc"}"/>'
        )
        parts.append(_text(x, 38, f"{10.0**power:g}", "middle"))
    key = [_text(LEFT + 110 * k, y + 16, f"\u25a0 {name}", fill=colours[name]) for k, name in enumerate(names)]
    return _picture(LEFT + wide + 60, y + 28, [_text(10, 18, title), *parts, *key])


def draw_curves(panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], x_title: str, y_title: str) -> str:
    """Draw a plot for each program, with logarithmic axes. Each plot contains one curve per library."""
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    colours = _colours(names)
    points = [p for curves in panels.values() for curve in curves.values() for p in curve if min(p) > 0]
    if not points:
        return _picture(200, 40, [_text(10, 20, "nothing was measured")])
    spans = [
        (math.floor(math.log10(min(p[k] for p in points))), math.ceil(math.log10(max(p[k] for p in points)) + 1e-9))
        for k in (0, 1)
    ]
    wide, high, columns = 360.0, 240.0, 2
    parts = []
    for number, (program, curves) in enumerate(panels.items()):
        left, top = 60 + (number % columns) * (wide + 70), 40 + (number // columns) * (high + 70)

        def at(p: tuple[float, float], left: float = left, top: float = top) -> tuple[float, float]:
            shares = [(math.log10(p[k]) - spans[k][0]) / max(spans[k][1] - spans[k][0], 1) for k in (0, 1)]
            return left + wide * shares[0], top + high * (1 - shares[1])

        parts.append(f'<rect x="{left}" y="{top}" width="{wide}" height="{high}" fill="none" stroke="#999"/>')
        parts.append(_text(left, top - 8, program))
        for k, (low, up) in enumerate(spans):
            for power in range(low, up + 1):
                x, y = at((10.0**power, 10.0 ** spans[1][0]) if k == 0 else (10.0 ** spans[0][0], 10.0**power))
                label = f"1e{power}"
                parts.append(_text(x, y + 15, label, "middle") if k == 0 else _text(x - 6, y + 4, label, "end"))
        for name, curve in curves.items():
            shown = [at(p) for p in curve if min(p) > 0]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in shown)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colours[name]}" stroke-width="2"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colours[name]}"/>' for x, y in shown]
    rows = -(-len(panels) // columns)
    bottom = 40 + rows * (high + 70)
    parts.append(_text(60, bottom, f"across: {x_title}; up: {y_title}"))
    for k, name in enumerate(names):
        parts.append(_text(60 + 110 * (k % 7), bottom + 20 + 16 * (k // 7), f"\u25a0 {name}", fill=colours[name]))
    return _picture(60 + columns * (wide + 70), bottom + 50 + 16 * (len(names) // 7), parts)
