"""Tests that tracebacks do not show weft's frames, and that warnings name the program's lines."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path
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


def _shown(program: str, tmp_path: Path, strict: str = "0", options: tuple[str, ...] = ()) -> list[str]:
    """Return the warnings, with their locations, that a program prints under ``weft run``."""
    path = tmp_path / "program.py"
    path.write_text(program)
    command, variables = [sys.executable, *options, "-m", "weft", "run", path], {**os.environ, "WEFT_STRICT": strict}
    said = subprocess.run(command, env=variables, capture_output=True, text=True, check=False).stderr
    return [line.removeprefix(f"{path}:") for line in said.splitlines() if not line.startswith(" ")]


_WARNS = "import numpy as np\nfor _ in range(2):\n    np.divide([1.0], [0.0])\n    np.log([0.0])\nnp.divide([1.0], 0)\n"


def test_warnings_point_at_the_program(tmp_path: Path) -> None:
    expected = [f"{line}: RuntimeWarning: divide by zero encountered in {name}" for line, name in _LINES]
    assert _shown(_WARNS, tmp_path) == expected
    assert _shown(_WARNS, tmp_path, options=("-W", "always")) == [*expected[:2], *expected]
    assert _shown(_WARNS, tmp_path, options=("-W", "ignore:::__main__")) == []
    large = "import numpy as np\nnp.nanmean(np.full((2, 200), np.nan), axis=0)\n"
    assert _shown(large, tmp_path) == ["2: RuntimeWarning: Mean of empty slice"]
    assert _shown("import weft as wf\nwf.zeros(5) / 0\n", tmp_path) == [
        "2: RuntimeWarning: invalid value encountered in divide"
    ]


_LINES = ((3, "divide"), (4, "log"), (5, "divide"))


def test_deprecation_warnings_are_shown_in_the_program_only(tmp_path: Path) -> None:
    program = (
        "import warnings\nfrom weft.dsl.script.script_function import ScriptFunction\n"
        "def old(x): warnings.warn('old', DeprecationWarning, stacklevel=2)\n"
        "function = ScriptFunction(old, old)\nfunction(1)\n"
        "exec(compile('function(2)', 'library.py', 'exec'), {'function': function, '__name__': 'library'})\n"
    )
    assert _shown(program, tmp_path) == ["5: DeprecationWarning: old"]
    assert _shown(program, tmp_path, options=("-W", "ignore")) == []
    assert "DeprecationWarning: old" in _shown(program, tmp_path, options=("-W", "error"))


def test_strict_shows_where_warnings_are_issued(tmp_path: Path) -> None:
    assert all("weft/dsl" in line for line in _shown(_WARNS, tmp_path, strict="1"))
