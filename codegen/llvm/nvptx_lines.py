"""Metadata of GPU modules: flags and source lines.

In: an emitter with finished functions, and the user's source line for each emitted line. Out: the same code with
metadata. Invariant: if source lines are requested, every instruction has one, as LLVM requires.
"""

from __future__ import annotations

import os
import re

from weft.codegen.llvm.emit import Emitter
from weft.codegen.llvm.emit_text import escaped

_DEFINED = re.compile(r"define .*@(\w+)\(.*\{$")


class _Nodes:
    """The numbered metadata nodes of a module."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, text: str) -> str:
        """Add a metadata node with the content `text` unless it exists, and return its name."""
        if text not in self.texts:
            self.texts.append(text)
        return f"!{self.texts.index(text)}"


def describe_module(emitter: Emitter, marks: list[tuple[int, int]]) -> None:
    """Add flags to the module, and source lines if the kernel requests them.

    `marks` are pairs (line of the emitted code, line of the user's file from there on).
    """
    nodes, attributes = _Nodes(), emitter.kernel.attributes
    flags = []
    if attributes.get("fast"):
        # libdevice may also flush subnormal numbers to zero
        flags.append(nodes.add('!{i32 4, !"nvvm-reflect-ftz", i32 1}'))
    if attributes.get("line_info"):
        flags.append(nodes.add('!{i32 2, !"Debug Info Version", i32 3}'))
        emitter.metadata.append(f"!llvm.dbg.cu = !{{{_add_lines(emitter, nodes, marks)}}}")
    if flags:
        emitter.metadata.append(f"!llvm.module.flags = !{{{', '.join(flags)}}}")
    emitter.metadata += [f"!{k} = {text}" for k, text in enumerate(nodes.texts)]


def _add_lines(emitter: Emitter, nodes: _Nodes, marks: list[tuple[int, int]]) -> str:
    """Add source locations to instructions, and return the name of the compile unit."""
    directory, name = os.path.split(str(emitter.kernel.attributes.get("file", "kernel")))
    file = nodes.add(f'!DIFile(filename: "{_quoted(name)}", directory: "{_quoted(directory)}")')
    unit = nodes.add(
        f'distinct !DICompileUnit(language: DW_LANG_C_plus_plus_14, file: {file}, producer: "weft", isOptimized: true, '
        "runtimeVersion: 0, emissionKind: DebugDirectivesOnly)"
    )
    type = nodes.add("!DISubroutineType(types: !{})")
    first = min((o.attributes["line"] for o in emitter.kernel.walk() if "line" in o.attributes), default=1)
    starts = dict(marks)
    scope, line = "", first
    for k, text in enumerate(emitter.lines):
        line = starts.get(k, line)
        defined = _DEFINED.match(text)
        if defined:
            line = first
            scope = nodes.add(
                f'distinct !DISubprogram(name: "{defined[1]}", scope: {file}, file: {file}, line: {first}, type: {type}, '
                f"unit: {unit}, spFlags: DISPFlagDefinition | DISPFlagOptimized)"
            )
            emitter.lines[k] = f"{text[:-1]}!dbg {scope} {{"
        elif text.startswith("  "):
            location = nodes.add(f"!DILocation(line: {line}, column: 1, scope: {scope})")
            emitter.lines[k] = "\n".join(f"{part}, !dbg {location}" for part in text.split("\n"))
    return unit


def _quoted(text: str) -> str:
    """Escape a path for an LLVM string. Backslashes become slashes, and double quotes become single quotes."""
    return escaped(text.replace("\\", "/").replace('"', "'").encode())
