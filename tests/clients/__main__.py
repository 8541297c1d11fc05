"""A command that runs programs with other packages, and documents the results.

It writes ``docs/package_results.md``. ``python -m tests.clients`` requires the packages of the extra ``clients``. Each
package's cases (`interop`) and each program (`packages`) run in separate processes. The document keeps its sections
about missing packages, and lists programs whose packages are missing as not run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.clients.interop import PACKAGES
from tests.clients.test_packages import PROGRAMS, ROOT, missing_packages, run

DOCUMENT = ROOT / "docs" / "package_results.md"
TITLES = {"sklearn": "scikit-learn"}
SECTION = re.compile(r"<!-- begin (\S+) -->\n.*?<!-- end \1 -->", re.DOTALL)


def results_of(package: str) -> tuple[str, dict[str, str]] | None:
    """Return a package's version and the outcomes of its cases, or None without the package."""
    own = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "WEFT_DEVICE": "cpu", "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.clients.interop", package],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **own},
    )
    if done.returncode:
        if "ModuleNotFoundError" in done.stderr:
            return None
        sys.exit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return found["version"], found["cases"]


def section_of(package: str, number: str, cases: dict[str, str]) -> str:
    """Return the Markdown of a package's cases."""
    rows = []
    for name, found in cases.items():
        status, _, reason = found.partition(": ")
        reason = reason.replace("|", "\\|")
        rows.append(f"| `{name}` | {status} | {reason} |")
    title = TITLES.get(package, package)
    return f"## {title} {number.partition('+')[0]}\n\n| case | result | reason |\n| --- | --- | --- |\n" + "\n".join(
        rows
    )


def programs() -> str:
    """Run the programs under ``python`` and ``weft run``, and return the Markdown of the results."""
    rows, working = [], 0
    with tempfile.TemporaryDirectory() as cache:
        for path in PROGRAMS:
            if missing := missing_packages(path):
                rows.append(f"| `{path.stem}` | not run | not installed: {', '.join(missing)} |")
                continue
            theirs, ours = run(path, Path(cache)), run(path, Path(cache), "-m", "weft", "run")
            same = ours.returncode == 0 and ours.stdout == theirs.stdout
            working += same
            print(path.stem, "works" if same else "fails", flush=True)
            reason = "different output" if ours.returncode == 0 else "an error"
            rows.append(f"| `{path.stem}` | {'works | |' if same else f'fails | {reason} |'}")
    head = f"Of {len(PROGRAMS)} programs, {working} print the same output with weft and with NumPy.\n\n| program | result | reason |\n| --- | --- | --- |\n"
    return head + "\n".join(rows)


def main() -> None:
    """In the document, replace the section of each installed package by its new test results."""
    sections: dict[str, str] = {}
    for package in PACKAGES:
        found = results_of(package)
        if found is not None:
            sections[package] = section_of(package, *found)
            print(package, found[0], flush=True)
    sections["programs"] = programs()
    sections["versions"] = (
        f"The cases ran with NumPy {version('numpy')} and Python {sys.version.split()[0]} on the CPU device."
    )

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- begin {name} -->\n{sections[name]}\n<!-- end {name} -->" if name in sections else match[0]

    DOCUMENT.write_text(SECTION.sub(replaced, DOCUMENT.read_text()))


if __name__ == "__main__":
    main()
