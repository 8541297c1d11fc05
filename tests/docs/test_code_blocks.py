"""Tests that Python code in the documents prints the output that is shown.

The code is in blocks, and in cells of notebooks. The blocks of a document run in order in one namespace. A ``text``
block directly after a Python block is the expected output, in which ``...`` matches any text. Functions in a block have
the document as their source file, with its line numbers.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from dataclasses import dataclass
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md")])


@dataclass
class CodeBlock:
    """A Python block of a document.

    `first` is the index of its first line. `prints` is the expected output, if there is one.
    """

    first: int
    lines: list[str]
    prints: str | None = None


def find_blocks(text: str) -> list[CodeBlock]:
    """Return the Python blocks of a document."""
    lines = text.splitlines()
    found: list[CodeBlock] = []
    k, behind = 0, False  # behind: whether only empty lines follow the last Python block
    while k < len(lines):
        fence = re.fullmatch(r"```(\{code-cell\}|\w*).*", lines[k])
        if fence is None:
            behind = behind and not lines[k].strip()
            k += 1
            continue
        end = next(n for n in range(k + 1, len(lines)) if lines[n] == "```")
        if fence[1] in ("python", "{code-cell}"):
            found.append(CodeBlock(k + 1, lines[k + 1 : end]))
        elif fence[1] == "text" and behind:
            found[-1].prints = "\n".join(lines[k + 1 : end])
        behind = fence[1] in ("python", "{code-cell}")
        k = end + 1
    return found


def run_blocks(name: str, text: str) -> None:
    """Run the Python blocks of a document. Raise AssertionError if a block prints something unexpected."""
    blocks = find_blocks(text)
    program = [""] * (text.count("\n") + 1)
    for block in blocks:
        program[block.first : block.first + len(block.lines)] = block.lines
    # kernels are compiled from the source of their functions, which linecache must contain
    linecache.cache[name] = (len(text), None, [line + "\n" for line in program], name)
    space: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        if "import numba" in block.lines and find_spec("numba") is None:
            continue
        code = compile("\n" * block.first + "\n".join(block.lines) + "\n", name, "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, space)
        if block.prints is not None:
            options = ELLIPSIS | NORMALIZE_WHITESPACE
            same = OutputChecker().check_output(block.prints + "\n", printed.getvalue(), options)
            assert same, f"{name}:{block.first} prints\n{printed.getvalue()}and not\n{block.prints}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_blocks_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if "import matplotlib" in text:
        pytest.importorskip("matplotlib").use("Agg")
    if "import dask" in text:
        pytest.importorskip("dask.array")
    run_blocks(str(path.relative_to(ROOT)), text)


def test_cells_of_notebooks_are_found() -> None:
    blocks = find_blocks("```{code-cell}\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n")
    assert [block.lines for block in blocks] == [["x = 1"], ["print(x)"]] and blocks[1].prints == "1"


def test_wrong_output_is_found() -> None:
    text = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    with pytest.raises(AssertionError, match="and not"):
        run_blocks("wrong.md", text)
    run_blocks("right.md", text.replace("3\n", "2\n"))


def test_errors_name_the_line_of_the_document() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_blocks("failing.md", "a line\n\n```python\nx = 1\nx / 0\n```\n")
    assert caught.traceback[-1].lineno + 1 == 5
