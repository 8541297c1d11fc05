"""Tests of ``weft run`` with complete programs."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.dsl.cli import compare, main
from weft.dsl.cli.main_program import MainProgram
from weft.dsl.script.redirect import isolated
from weft.dsl.script.script_namespace import find_all_names, script_module
from weft.fusion.run import verification

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SMALL = {
    "density.py": ["500", "50"],
    "black_scholes.py": ["1000"],
    "seawater.py": ["1000"],
    "heat.py": ["40", "20"],
    "image_filter.py": ["2"],
    "pca.py": [],
    "mandelbrot.py": ["80", "20"],
    "nbody.py": ["30", "4"],
}


def _in_this_process(program: MainProgram) -> compare.Outcome:
    return compare._outcome(program, True, {})


@pytest.mark.parametrize("name", SMALL)
def test_examples_give_numpys_results(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name not in ("density.py", "heat.py"):  # (two examples show that new processes work)
        monkeypatch.setattr(compare, "_in_new_process", _in_this_process)
    assert main(["run", "--compare", str(EXAMPLES / name), *SMALL[name]]) == 0
    text = capsys.readouterr().out
    assert "NumPy against weft" in text
    assert re.search(r"printed +(\d+) of \1 lines equal", text) or "numbers differ" in text
    assert re.search(r"cold +new process +warm", text) and " nan ms" not in text
    assert re.search(r"^ratio +[\d.]+ +[\d.]+ +[\d.]+ times NumPy's speed$", text, re.MULTILINE)
    assert re.search(r"^(fused: .*array operations in one loop|nothing was fused)", text, re.MULTILINE)
    work = r"([\d,.]+ [A-Za-z ]+, )*[\d.]+ ms for finding, making and compiling plans, [\d.]+ ms for running them, [\d.]+ ms outside of plans"
    assert re.search(rf"^cold: {work}\nwarm: {work}$", text, re.MULTILINE)
    assert not re.search(r"\b0 [a-z]+ (made|read|generated|interpreted)", text)


def test_a_program_that_raises_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("import numpy as np\nnp.ones(3) + np.ones(4)\n")
    assert main(["run", "--compare", str(script)]) == 1
    said = capsys.readouterr()
    assert said.err.count("could not be broadcast") == 1 and "(NumPy, first) ended with exit status 1" in said.err
    assert said.out == ""


@pytest.mark.parametrize("filled", [False, True])
def test_saved_arrays_are_compared(
    filled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Test that arrays saved by a script are compared.

    If `filled`, the script's `numpy` module already has all names in its dictionary.
    """
    if filled:
        find_all_names()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compare, "_in_new_process", _in_this_process)
    (tmp_path / "script.py").write_text(SAVING)
    assert main(["run", "--compare", "script.py"]) == 0
    said = capsys.readouterr().out
    for name in ("a.npy", "b.txt", "c.npz arr_0", "c.npz named", "d.npz only", "e.npy", "StringIO"):
        assert any(line.startswith(f"saved {name} ") and line.endswith("equal") for line in said.splitlines()), said
    assert np.load("c.npz")["named"].tolist() == [1, 1, 1]
    scripts = vars(script_module("numpy"))
    assert all(scripts[name] == getattr(np, name) for name in ("save", "savetxt", "savez"))


CONTAINERS = """
import numpy as np
values = [np.arange(3.0), np.arange(4.0)]
named = {"a": np.ones(2), 1: 2.5}
log, count, label = [1, 2.0], 7, "text"
"""


def test_arrays_and_numbers_in_containers_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare, "_in_new_process", _in_this_process)
    (tmp_path / "script.py").write_text(CONTAINERS)
    assert main(["run", "--compare", str(tmp_path / "script.py")]) == 0
    printed = capsys.readouterr().out
    for name in ("values[0]", "values[1]", "named['a']", "log"):
        assert re.search(rf"^global {re.escape(name)} .*equal$", printed, re.MULTILINE), printed
    assert re.search("^numbers +2 equal$", printed, re.MULTILINE)


def test_operations_of_one_line_are_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare, "_in_new_process", _in_this_process)
    (tmp_path / "script.py").write_text("import numpy as np\nprint(float((np.sin(np.arange(60_000.0)) + 1).sum()))\n")
    assert main(["run", "--compare", str(tmp_path / "script.py")]) == 0
    assert re.search(r"in one loop, at line 2$", capsys.readouterr().out, re.MULTILINE)


SAVING = """
import io
import numpy as np
x = np.ones(3)
np.save("a.npy", x)
np.savetxt("b.txt", x)
np.savez("c.npz", x, named=x)
np.savez_compressed("d.npz", only=x)
np.save(file="e.npy", arr=x)
np.savetxt(io.StringIO(), X=x)
"""


def test_arguments_exit_codes_and_neighbours(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import numpy\ndef make():\n    return numpy.ones(3)\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, json\nimport numpy as np\nfrom numpy.linalg import norm\nimport beside\n"
        "x = beside.make()\nassert type(x) is type(np.zeros(2)) and type(x).__module__.startswith('weft')\n"
        "print(sys.argv[1:], float(norm(x * 2)) > 3, isinstance(x, np.ndarray), __name__)\nsys.exit(7)\n"
    )
    command = [sys.executable, "-m", "weft", "run", str(script), "a", "--flag", "--device"]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src"), "WEFT_IMMEDIATE": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "['a', '--flag', '--device'] True True __main__\n")


LIBRARY = """
import functools
import numpy as np

@functools.singledispatch
def kind(x): return "other"

@kind.register
def _(x: np.ndarray): return "array"

def seen(x): return isinstance(x, np.ndarray), isinstance(x, list), kind(x), type(x) is np.ndarray

def make(x): return type(np.zeros_like(x)) is np.ndarray, type(x)((2, 3), "f4").shape == (2, 3)
"""
PROGRAM = """
import numpy as np, library
x = np.linspace(0, 1, 60_000)
print(library.seen(x * 2), isinstance(x, np.ndarray), type(x).__module__)
print(library.make(x), type(np.zeros_like(x)) is type(x), type(type(x)(30_000)) is type(x))
"""


def test_libraries_take_arrays_for_numpys(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "library.py").write_text(LIBRARY)
    (tmp_path / "script.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "weft", "run", str(tmp_path / "script.py")]
    paths = os.pathsep.join([str(EXAMPLES.parent / "src"), str(installed)])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.stdout == "(True, False, 'array', False) True weft\n(True, True) True True\n", done.stderr


def test_programs_on_weft_see_its_arrays() -> None:
    x = weft.linspace(0, 1, 60_000)
    assert not isinstance(x, np.ndarray) and x.__class__ is weft.Array


def test_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    assert "numpy" in capsys.readouterr().out
    assert main(["cache", "info"]) == 0
    assert main(["cache", "clear"]) == 0
    assert main(["doctor"]) == 0
    assert "target sm_90" in capsys.readouterr().out


@pytest.mark.cpu
def test_verify_compares_plans_with_what_is_interpreted(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import numpy as np\nx = np.arange(300_000.0) * 3 - 7\nprint(np.exp(-x / 1e5).sum())\n")
    before = verification.VerificationCounts.compared
    with isolated(tmp_path, to_weft=True):
        assert main(["run", "--verify", str(script)]) == 0
    assert verification.VerificationCounts.compared > before


def test_explain_prints_the_plans_of_a_program_that_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nx = np.linspace(0, 1, 300_000)\nprint((np.exp(x) * 2).size)\nx += 1\nprint(x[0])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src"), "WEFT_INTERPRET": "auto"}
    command = [sys.executable, "-m", "weft", "run", "--explain", str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "300000\n1.0\n" and "boundary: " in done.stderr


def test_a_missing_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "no_such_script.py"]) == 2
    assert "no_such_script.py" in capsys.readouterr().err


def test_a_device_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--device", "nonsense", str(EXAMPLES / "heat.py")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("weft run: no device 'nonsense'") and "Traceback" not in error


@pytest.mark.cpu
def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert re.fullmatch(r"weft \S+\n", capsys.readouterr().out)


def test_numpys_times_are_of_a_process_without_weft(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, time\nimport beside\nprint('text')\nassert sys.argv[1:] == ['a', 'b']\n"
        "assert not any(name.partition('.')[0] == 'weft' for name in sys.modules)\ntime.sleep(0.02)\nsys.exit(0)\n"
    )
    (tmp_path / "beside.py").write_text("import numpy, time\ntime.sleep(0.02)\n")  # (in both runs)
    assert all(0.04 < seconds < 10 for seconds in compare._under_numpy(MainProgram.parse([str(script), "a", "b"])))
    code = "import numpy, sys; assert 'weft' not in sys.modules"
    assert all(0 < seconds < 10 for seconds in compare._under_numpy(MainProgram.parse(["-c", code])))
    assert all(map(math.isnan, compare._under_numpy(MainProgram.parse(["-c", "1 / 0"]))))


def test_the_report_shows_numpys_times_in_a_process_without_weft(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare, "_under_numpy", lambda program: (3.25, 1.25))
    assert main(["run", "--compare", "-c", "import numpy as np\nx = np.arange(3)"]) == 0
    assert re.search(r"^NumPy +3250.0 ms +1250.0 ms$", capsys.readouterr().out, re.MULTILINE)
