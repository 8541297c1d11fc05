"""Execution of a script with its arguments, exit status and global variables."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.dsl.script.redirect import Redirected


@contextlib.contextmanager
def with_arguments(path: Path, arguments: list[str]) -> Iterator[None]:
    """Set `sys.argv` and `sys.path` as the script expects them."""
    before, folders = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before, folders


def execute(path: Path, on_weft: bool) -> tuple[int, dict[str, Any]]:
    """Run the script once. Return its exit status and its global variables."""
    program = Redirected(path.resolve().parent, on_weft)
    try:
        return 0, program.run(path)
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0, {}
        print(leaving.code, file=sys.stderr)
        return 1, {}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        import traceback

        traceback.print_exception(_from_script(error, path))
        return 1, {}
    finally:
        program.forget()


def _from_script(error: BaseException, path: Path) -> BaseException:
    """Return the error with a traceback that begins in the script."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
        frames = frames.tb_next
    return error.with_traceback(frames or error.__traceback__)
