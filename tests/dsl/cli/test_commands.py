"""Tests of the command line: options, usage messages, and closed pipes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.dsl.cli import OPTIONS, PLAIN, main
from weft.dsl.cli.options import make_parser


@pytest.mark.parametrize("command", ["run", "explain", "info", "doctor", "cache"])
def test_wrong_options_show_the_usage_of_the_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [command, "info"] if command == "cache" else [command]
    with pytest.raises(SystemExit) as caught:
        main([*words, "--devise"])
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert said.startswith(f"usage: weft {command} ") and "unrecognized arguments: --devise" in said


@pytest.mark.parametrize("words", [["run", "--compar"], ["run", "--dev", "cpu"], ["explain", "--out", "page.html"]])
def test_options_have_their_full_names(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*words, "script.py"])
    assert caught.value.code == 2
    assert f"unrecognized arguments: {words[1]}" in capsys.readouterr().err


PRINTING = "import numpy as np\nx = np.ones(1000)\nfor k in range(2000): print(k, x.sum())\n"


@pytest.mark.parametrize("words", [["info"], ["doctor"], ["run", "--compare"], ["run", "--explain"], ["explain"]])
def test_a_closed_pipe_is_no_error(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PRINTING)
    program = ["script.py"] if words[0] in ("run", "explain") else []
    done = _run_into_closed_pipe([*words, *program], tmp_path)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_plain_run_into_a_closed_pipe_ends_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PRINTING)
    done = _run_into_closed_pipe(["run", "script.py"], tmp_path)
    assert done.returncode != 0 and b"BrokenPipeError" in done.stderr


def test_the_programs_own_broken_pipe_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("raise BrokenPipeError('a socket')")
    command = [sys.executable, "-m", "weft", "explain", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.endswith("BrokenPipeError: a socket\n")


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "src")}


def _run_into_closed_pipe(words: list[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "weft", *words]
        return subprocess.run(command, cwd=folder, env=ENVIRONMENT, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)


READING = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--compare", action="store_true")
parser.add_argument("--device")
print(parser.parse_args())
"""


def run(script: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program under ``weft run`` in a new process, because redirected imports last until the process ends."""
    command = [sys.executable, "-m", "weft", "run", str(script), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_an_option_after_the_program_is_passed_to_it_with_a_note(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.argv[1:])\n")
    words = ["--compare", "--device", "cpu", "--verify=1", "-v", "--explain"]
    done = run(script, words)
    assert done.stdout == f"{words}\n"
    note = "weft run: {} after the program's name is passed to the program; to give it to weft, put it before\n"
    assert done.stderr == "".join(note.format(option) for option in ("--compare", "--explain", "--device"))


def test_an_option_that_the_program_reads_is_passed_without_a_note(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(READING)
    done = run(script, ["--compare", "--device", "cpu"])
    assert done.stdout == "Namespace(compare=True, device='cpu')\n" and done.stderr == ""


def test_the_options_of_run_are_known() -> None:
    (commands,) = (action for action in make_parser()._actions if isinstance(action, argparse._SubParsersAction))
    options = {text for action in commands.choices["run"]._actions for text in action.option_strings}
    assert options == {*OPTIONS, "-h", "--help"}


def test_plain_run_has_the_default_of_every_option() -> None:
    parsed = vars(make_parser().parse_args(["run"]))
    assert parsed.pop("parser").prog == "weft run"
    assert vars(PLAIN) == parsed


def test_a_misspelt_option_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--comapre", "script.py"])
    assert capsys.readouterr().err.endswith("unrecognized arguments: --comapre; did you mean --compare?\n")
