"""Tracebacks do not show weft's frames."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from types import SimpleNamespace
from typing import Any

import pytest

import weft as wf
from weft.dsl.tracebacks import hide_frames, hide_in_ipython


def _error() -> BaseException:
    with pytest.raises(ValueError, match="broadcast") as caught:
        wf.zeros(3000) + wf.zeros(4)
    return caught.value


def _files(error: BaseException) -> set[str]:
    return {frame.filename for frame in traceback.extract_tb(error.__traceback__)}


def test_frames_are_hidden_in_chains() -> None:
    first, second = _error(), ValueError("second")
    assert len(_files(first)) > 1
    second.__cause__, first.__context__ = first, second
    hide_frames(second)
    assert _files(first) == {__file__} and second.__traceback__ is None


@pytest.mark.parametrize("strict", ["0", "1"])
def test_errors_that_end_a_program(strict: str) -> None:
    program = "import weft as wf\nwf.zeros(3000) + wf.zeros(4)\n"
    command, variables = [sys.executable, "-c", program], {**os.environ, "WEFT_STRICT": strict}
    said = subprocess.run(command, env=variables, capture_output=True, text=True, check=False).stderr
    assert 'File "<string>", line 2' in said and "could not be broadcast" in said
    assert ("weft/dsl" in said) == (strict == "1")


def test_hooks_of_others_are_kept() -> None:
    program = "import sys\nsys.excepthook = hook = lambda *error: None\nimport weft\nprint(sys.excepthook is hook)\n"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "True\n"


def test_errors_in_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    shell = SimpleNamespace(custom_exceptions=(), showtraceback=lambda error, tb_offset: shown.append(error))
    shell.set_custom_exc = lambda kinds, handler: shell.__dict__.update(custom_exceptions=kinds, handler=handler)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    hide_in_ipython()
    error = _error()
    shell.handler(shell, ValueError, error, error.__traceback__, tb_offset=1)
    assert shown == [(ValueError, error, error.__traceback__)] and _files(error) == {__file__}
    shell.custom_exceptions, shell.handler = (KeyError,), None
    hide_in_ipython()
    assert shell.handler is None  # the user's own handler is not replaced
