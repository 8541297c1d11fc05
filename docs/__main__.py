"""Build the documentation site: ``python -m docs`` writes ``docs/_build/html``.

The pages of this folder are copied to ``docs/_build/pages``, beside the generated pages, so that the build leaves the
source tree as it is. Sphinx's warnings are errors.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import main as sphinx_build

from docs.site import generate

DOCS = Path(__file__).resolve().parent
ROOT, BUILD = DOCS.parent, DOCS / "_build"
PAGES, HTML = BUILD / "pages", BUILD / "html"
SOURCES = (".md", ".svg", ".css", ".png", ".py")


def copy_pages() -> None:
    """Copy the sources of the site. Sources that are older than their copies are left alone."""
    for path in sorted(DOCS.rglob("*")):
        inside = path.relative_to(DOCS)
        if path.suffix not in SOURCES or "_build" in inside.parts or "__pycache__" in inside.parts:
            continue
        target = PAGES / inside
        if not target.exists() or target.stat().st_mtime < path.stat().st_mtime:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    # links from pages to files of the project lead beside the copy
    for folder in ("benchmarks", "examples"):
        link = BUILD / folder
        if not link.is_symlink():
            link.symlink_to(ROOT / folder)


def write_kernel() -> None:
    """Write a Jupyter kernel specification that uses this Python interpreter and the log level ERROR."""
    folder = BUILD / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--log-level=ERROR"]
    text = json.dumps({"argv": command, "display_name": "Python 3", "language": "python"})
    (folder / "kernel.json").write_text(text, encoding="utf-8")
    os.environ["JUPYTER_PATH"] = str(BUILD / "jupyter")


def main(words: list[str] | None = None) -> int:
    """Build the site and return Sphinx's exit status."""
    parser = argparse.ArgumentParser(prog="python -m docs", description="Build the documentation site.")
    parser.add_argument("--fresh", action="store_true", help="build all pages anew")
    options = parser.parse_args(words)
    begin = time.perf_counter()
    if options.fresh:
        shutil.rmtree(BUILD, ignore_errors=True)
    PAGES.mkdir(parents=True, exist_ok=True)
    # the cells of the notebooks import weft from where this process has it
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *(p for p in sys.path if p)])
    copy_pages()
    write_kernel()
    generate.write_pages(PAGES)
    status = sphinx_build(["-b", "html", "-W", "--keep-going", "-q", "-c", str(DOCS), str(PAGES), str(HTML)])
    print(f"{HTML / 'index.html'}: {time.perf_counter() - begin:.0f} s, exit status {status}")
    return status


if __name__ == "__main__":
    sys.exit(main())
