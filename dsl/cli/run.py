"""``weft run``: run an unmodified NumPy script on weft."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from weft import fusion
from weft.dsl.cli.execution import execute, with_arguments
from weft.runtime import DeviceNotFoundError, set_default_device


def run(script: str, arguments: list[str], compare: bool, explain: bool, device: str) -> int:
    """Run a script and return its exit status. With `compare`, 1 means that a result differs."""
    path = Path(script)
    if not path.is_file():
        print(f"weft run: there is no file {script}", file=sys.stderr)
        return 2
    if device:
        try:
            set_default_device(device)
        except DeviceNotFoundError as error:
            print(f"weft run: {error}", file=sys.stderr)
            return 2
    if explain:
        fusion.show_plans(True)
    if not compare:
        with with_arguments(path, arguments):
            return execute(path, True)[0]
    status: int = import_module("weft.dsl.cli.compare").compare(path, arguments)
    return status
