"""``weft run``: run an unmodified NumPy script on weft."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from weft import fusion
from weft.dsl.cli.main_program import MainProgram, show_user_frames
from weft.dsl.script.redirect import redirect
from weft.runtime import DeviceNotFoundError, set_default_device


def run(program: MainProgram, compare: bool, explain: bool, device: str) -> int:
    """Run a program and return its exit status. With `compare`, 1 means that a result differs.

    Without `compare`, exceptions of the program are not caught, so that the process ends as under Python.
    """
    if not program.option and not Path(program.text).exists():
        print(f"weft run: there is no file {program.text}", file=sys.stderr)
        return 2
    if device:
        try:
            set_default_device(device)
        except DeviceNotFoundError as error:
            print(f"weft run: {error}", file=sys.stderr)
            return 2
    if explain:
        fusion.show_plans(True)
    if compare:
        status: int = import_module("weft.dsl.cli.compare").compare(program)
        return status
    redirect(str(program.folder))
    try:
        program.execute()
    except SystemExit:
        raise
    except BaseException as error:
        show_user_frames(error)
        raise
    return 0
