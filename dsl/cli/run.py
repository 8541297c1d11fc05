"""The commands ``weft run`` and ``weft explain``, which run an unmodified NumPy script on weft."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import nullcontext
from importlib import import_module

from weft import fusion
from weft.dsl.cli.main_program import MainProgram
from weft.dsl.script.redirect import redirect
from weft.dsl.tracebacks import hide_frames
from weft.runtime import DeviceNotFoundError, override, set_default_device, setting


def run(program: MainProgram, compare: bool, plans: bool, device: str) -> int:
    """Run a program and return its exit status.

    With `compare`, a status of 1 means that a result differs.

    Without `compare`, exceptions of the program are not caught, so that the process ends as under Python.
    """
    if not _is_ready("run", program, device):
        return 2
    if plans:
        fusion.show_plans(fusion.print_plan)
    if compare:
        status: int = import_module("weft.dsl.cli.compare").compare(program)
        return status
    redirect(program.folder)
    gc.freeze()  # (otherwise full collections and the exit of the process visit all modules loaded so far, which takes 20 ms)
    try:
        # (a program that is interpreted at first has no plan)
        at_once = plans and setting("interpret") == "auto"
        with override(interpret="never") if at_once else nullcontext():
            program.execute()
    except SystemExit:
        raise
    except BaseException as error:
        _show_user_frames(error)
        raise
    return 0


def explain(program: MainProgram, output: str, device: str) -> int:
    """Run a program, write a page about its speed to `output`, and return the exit status."""
    if not _is_ready("explain", program, device):
        return 2
    status: int = import_module("weft.dsl.cli.explain_program").explain_program(program, output)
    return status


def _is_ready(command: str, program: MainProgram, device: str) -> bool:
    """Return whether the program and the device exist. If both do, also make the device the default device, so that the program can run.

    If one of them does not exist, print an error.
    """
    if not program.option and not os.path.exists(program.text):
        print(f"weft {command}: there is no file {program.text}", file=sys.stderr)
        return False
    if device:
        try:
            set_default_device(device)
        except DeviceNotFoundError as error:
            print(f"weft {command}: {error}", file=sys.stderr)
            return False
    return True


def _show_user_frames(error: BaseException) -> None:
    """Remove weft's frames from the traceback of an uncaught error, unless the `strict` setting is on."""
    if setting("strict"):
        return
    hide_frames(error)
    show, trace = sys.excepthook, error.__traceback__

    def excepthook(kind: type[BaseException], error: BaseException, _: object) -> None:
        show(kind, error.with_traceback(trace), trace)

    sys.excepthook = excepthook
