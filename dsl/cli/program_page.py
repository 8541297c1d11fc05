"""The HTML page of ``weft explain``, in one file without scripts or links to other files.

In: the measurements of a program. Out: the text of the page. Invariant: text from the user's program is escaped.
"""

from __future__ import annotations

import linecache
import platform
from html import escape
from typing import TYPE_CHECKING

from weft.dsl.cli.advice import advise
from weft.dsl.cli.reports import installed_version
from weft.dsl.profile import SHOWN
from weft.dsl.source_table import HOST_COLOUR, KERNEL_COLOUR, SourceLine, line_id, show_table, source_tables
from weft.fusion import show_seconds
from weft.runtime import counted, default_device, show_file

if TYPE_CHECKING:
    from weft.dsl.cli.explain_program import Measured

MOST_PLANS = 5
STYLE = """
:root { color-scheme: light dark; --rule: #ddd; --soft: #f5f6f8; --link: #1f5fb4; }
@media (prefers-color-scheme: dark) { :root { --rule: #444; --soft: #24272c; --link: #8ab8f5; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; }
a { color: var(--link); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.82rem; }
th { text-align: left; background: var(--soft); }
th, td { padding: 0.1rem 0.6rem; white-space: nowrap; }
td { border-top: 1px solid var(--rule); }
table.source td { border: 0; } table.source td:nth-child(-n+4) { text-align: right; color: GrayText; }
table.source td:nth-child(2) { color: inherit; } table.source td:nth-child(3) { text-align: left; }
table.source tr:target, tr:target { background: var(--soft); outline: 2px solid var(--link); }
.key { display: inline-block; width: 0.8em; height: 0.8em; }
li { margin-bottom: 0.6rem; } li code { background: var(--soft); padding: 0 0.3rem; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body { padding: 0.6rem; } th, td { padding: 0.1rem 0.3rem; } table.source svg { width: 3rem; }
  table.source :is(th, td):is(:nth-child(4), :nth-child(5)) { display: none; }
}
"""


def program_page(measured: Measured) -> str:
    """Return the HTML page of ``weft explain``."""
    name = escape(measured.program.text if measured.program.option != "-c" else "-c")
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{name} on weft</title><style>{STYLE}</style></head><body>",
        f"<h1>{name} on weft</h1>{_summary(measured)}",
        f"<h2>Slowest lines</h2>{_slowest(measured)}",
        f"<h2>Program</h2>{_program(measured)}",
        f"<h2>Plans</h2>{_plans(measured)}",
        f"<h2>Kernels</h2>{_kernels(measured)}",
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _summary(measured: Measured) -> str:
    profile = measured.profile
    lines = measured.profile.lines.values()
    device = ", ".join(dict.fromkeys(one.device for one in profile.launches)) or default_device().name
    return (
        f"<p>A warm run took {show_seconds(profile.seconds)}: {show_seconds(sum(one.seconds for one in lines))} in "
        f"{counted(len(profile.launches), 'launch', 'launches')} of kernels and library functions, and "
        f"{show_seconds(sum(measured.host.values()))} on the host. The first run took "
        f"{show_seconds(measured.first)} and compiled {counted(measured.compilations, 'kernel')}.</p><p>weft {installed_version('weft')}, Python {platform.python_version()}, device "
        f"{escape(device)}.</p>"
    )


def _slowest(measured: Measured) -> str:
    found = advise(measured)
    if not found:
        return "<p>No line takes a significant share of the time.</p>"
    whole = measured.profile.seconds or 1.0
    items = []
    for one in found:
        file, number = one.line
        part = min(1.0, one.seconds / whole)
        text = (_texts(measured).get(file) or linecache.getlines(file))[number - 1 : number]
        items.append(
            f"<li><a href='#{line_id(file, number)}'>{escape(show_file(file))}:{number}</a> "
            f"<code>{escape(''.join(text).strip())}</code><br>{show_seconds(one.seconds)}, "
            f"{f'{part:.0%}' if part >= 0.005 else 'less than 1%'} of the time. {escape(' '.join(one.sentences))}</li>"
        )
    return f"<ol>{''.join(items)}</ol>"


def _program(measured: Measured) -> str:
    """Return HTML tables of the program's source lines, and a legend."""
    lines = dict[tuple[str, int], SourceLine]()
    own, numbers = measured.profile.lines, measured.numbers
    for line in {**own, **measured.host}:
        one = own.get(line)
        kernels = tuple(dict.fromkeys(numbers[k.device, k.note] for k in one.kernels)) if one is not None else ()
        seconds, nbytes = (one.seconds, one.nbytes) if one is not None else (0.0, 0.0)
        lines[line] = SourceLine(seconds, measured.host.get(line, 0.0), nbytes, tuple(sorted(kernels)))
    return (
        f"<p><span class='key' style='background:{KERNEL_COLOUR}'></span> in kernels, "
        f"<span class='key' style='background:{HOST_COLOUR}'></span> on the host (Python, libraries, and weft's own "
        "work). A kernel's time is divided among its source lines in proportion to the costs of their operations. The time is "
        "attributed to the lines that record the operations, not to the line that needs the value. The time on the host is "
        "sampled once per millisecond. In a loop without function calls, the host time is attributed to the last line.</p>"
        + source_tables(lines, measured.file, _texts(measured))
    )


def _texts(measured: Measured) -> dict[str, list[str]]:
    return {"<string>": measured.program.text.splitlines()} if measured.program.option == "-c" else {}


def _plans(measured: Measured) -> str:
    """Return HTML diagrams of the plans that took the longest."""
    if not measured.plans:
        return "<p>No plan ran, because all operations were on small arrays or were library calls.</p>"
    parts = [
        f"<h3>Plan {k}: {show_seconds(one.seconds)} in kernels</h3><p>{escape(one.plan.summary)}</p>"
        f"<div class='scroll'>{one.plan.svg(one.numbers)}</div>"
        for k, one in enumerate(measured.plans[:MOST_PLANS], 1)
    ]
    if (more := len(measured.plans) - MOST_PLANS) > 0:
        seconds = sum(one.seconds for one in measured.plans[MOST_PLANS:])
        parts.append(f"<p>{counted(more, 'more plan')} took {show_seconds(seconds)} in kernels.</p>")
    return "".join(parts)


def _kernels(measured: Measured) -> str:
    """Return an HTML table of the kernels that took the longest, or a sentence if no kernel ran."""
    groups = measured.profile.groups
    numbers = [measured.numbers[group[0].device, group[0].note] for group in groups[:SHOWN]]
    head, *rows = measured.profile.rows()[: SHOWN + 1]
    if not rows:
        return "<p>No kernel ran.</p>"
    table = [("", *head), *((f"[{k}]", *row) for k, row in zip(numbers, rows, strict=True))]
    more = len(groups) - len(rows)
    return (
        f"<div class='scroll'>{show_table(table, [f'kernel-{k}' for k in numbers])}</div>"
        + (f"<p>And {counted(more, 'more kernel')}.</p>" if more else "")
        + f"<p>{escape(measured.profile.summary)}.</p>"
    )
