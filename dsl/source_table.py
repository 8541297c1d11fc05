"""HTML tables of a program's source lines with their times.

In: times by file and line. Out: HTML without scripts. Invariant: text from the user's program is escaped.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from weft.fusion import show_bytes, show_seconds
from weft.runtime import show_file

BAR = 120  # width of the bar of the slowest line in pixels
SHARED = 0.005  # lines outside the main file are shown only if they took at least this fraction of the time
KERNEL_COLOUR, HOST_COLOUR = "#3b7dd8", "#e0912f"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The time spent on one line of the user's program.

    Attributes
    ----------
    kernels : float
        Seconds in kernels.
    host : float
        Seconds on the host outside of kernels.
    nbytes : float
        The line's share of the bytes that kernels moved.
    numbers : tuple of int
        Numbers of the kernels to which the table links.
    """

    kernels: float = 0.0
    host: float = 0.0
    nbytes: float = 0.0
    numbers: tuple[int, ...] = ()

    @property
    def seconds(self) -> float:
        """Total time of the line."""
        return self.kernels + self.host


NOTHING = SourceLine()


def source_tables(
    lines: Mapping[tuple[str, int], SourceLine], main: str = "", texts: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Return HTML tables of source lines with their times, one table for each file.

    All lines of the `main` file are shown, and of other files the lines that took at least the fraction `SHARED` of the
    time. `texts` contains the lines of files that are not on disk.
    """
    whole = sum(one.seconds for one in lines.values()) or 1.0
    longest = max((one.seconds for one in lines.values()), default=0.0) or 1.0
    times = {main: 0.0} if main else {}
    for (file, _), one in lines.items():
        times[file] = times.get(file, 0.0) + one.seconds
    numbered = any(one.numbers for one in lines.values())
    files = sorted(times, key=lambda file: (file != main, -times[file]))
    parts = []
    for file in files:
        text = (texts or {}).get(file) or linecache.getlines(file)
        shown = sorted(line for path, line in lines if path == file and lines[path, line].seconds >= SHARED * whole)
        if file == main:
            shown = [*range(1, len(text) + 1)]
        rows = [_row(file, k, text[k - 1 : k], lines.get((file, k), NOTHING), longest) for k in shown]
        if rows:
            parts.append(f"<h3>{escape(show_file(file))}</h3>{_table(rows, numbered)}")
    return "".join(parts)


def _table(rows: Sequence[str], numbered: bool) -> str:
    heads = ["line", "time", "", "bytes", *(["kernels"] if numbered else []), "program"]
    head = "".join(f"<th>{name}</th>" for name in heads)
    found = f"<div class='scroll'><table class='source'><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    return found if numbered else found.replace("<td class='numbers'></td>", "")


def _row(file: str, number: int, text: Sequence[str], one: SourceLine, longest: float) -> str:
    style = "white-space:pre;font-family:monospace;text-align:left"
    numbers = " ".join(f"<a href='#kernel-{k}'>[{k}]</a>" for k in one.numbers)
    return (
        f"<tr id='{line_id(file, number)}'><td>{number}</td><td>{show_seconds(one.seconds) if one.seconds else ''}</td>"
        f"<td>{_bar(one, longest)}</td><td>{show_bytes(round(one.nbytes)) if one.nbytes else ''}</td>"
        f"<td class='numbers'>{numbers}</td><td style='{style}'>{escape(''.join(text).rstrip())}</td></tr>"
    )


def line_id(file: str, number: int) -> str:
    """Return the HTML id of the table row for a source line."""
    return f"{escape(show_file(file), quote=True).replace(' ', '-')}-{number}"


def _bar(one: SourceLine, longest: float) -> str:
    """Return an HTML bar that shows the kernel time and the host time of a line."""
    first, second = (BAR * seconds / longest for seconds in (one.kernels, one.host))
    if first + second < 0.5:
        return ""
    title = f"{show_seconds(one.kernels)} in kernels, {show_seconds(one.host)} on the host"
    return (
        f"<svg width='{BAR}' height='10' viewBox='0 0 {BAR} 10' preserveAspectRatio='none' role='img' aria-label='{title}'><title>{title}</title>"
        f"<rect width='{first:.1f}' height='10' fill='{KERNEL_COLOUR}'/>"
        f"<rect x='{first:.1f}' width='{second:.1f}' height='10' fill='{HOST_COLOUR}'/></svg>"
    )


def show_table(rows: Sequence[Sequence[str]], anchors: Sequence[str] = ()) -> str:
    """Return an HTML table of texts, in which the first row is the header.

    `anchors` are the HTML ids of the other rows.
    """

    def row(cells: Sequence[str], tag: str, own: str = "") -> str:
        return f"<tr{own}>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in cells) + "</tr>"

    head, *others = rows
    given = anchors or [""] * len(others)
    owns = [f" id='{one}'" if one and one not in given[:k] else "" for k, one in enumerate(given)]
    body = "".join(row(cells, "td", own) for cells, own in zip(others, owns, strict=True))
    return f"<table><thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table>"
