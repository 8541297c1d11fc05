"""Tests of the command line: usage, wrong options, and pipes that are closed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from weft.dsl.cli import main


@pytest.mark.parametrize("command", ["run", "explain", "info", "doctor", "cache"])
def test_wrong_options_show_the_usage_of_the_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [command, "info"] if command == "cache" else [command]
    with pytest.raises(SystemExit) as caught:
        main([*words, "--devise"])
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert said.startswith(f"usage: weft {command} ") and "unrecognized arguments: --devise" in said


def test_a_closed_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "weft", "info"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.returncode == 1 and done.stderr == b""
