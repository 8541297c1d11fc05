"""Tests of notebooks: ``%%weft``, comparisons with NumPy, and tracebacks."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import weft as wf


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    main, hook = sys.modules["__main__"], sys.displayhook
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    made.run_line_magic("colors", "nocolor")
    made.run_cell("%load_ext weft")
    yield made
    made.reset()
    made.history_manager.end_session()
    InteractiveShell.clear_instance()
    sys.modules["__main__"], sys.displayhook = main, hook
    gc.collect()


def run(shell: Any, cell: str) -> Any:
    result = shell.run_cell(cell)
    result.raise_error()
    return shell.user_ns


def test_a_cells_numpy_is_weft(shell: Any) -> None:
    names = run(shell, "import numpy as np\nfrom numpy import exp, linalg\na = np.arange(50_000.0)\nkept = a")
    run(
        shell,
        "%%weft\nb = exp(a) * 2\nkind = type(b), type(a)\na[1] = 7\nimport numpy\ninside = type(numpy.ones(30_000))",
    )
    assert names["kind"] == (wf.Array, wf.Array) and names["inside"] is wf.Array
    assert names["a"] is names["kept"] and type(names["a"]) is np.ndarray and names["a"][1] == 7
    assert isinstance(names["b"], wf.Array) and float(names["b"][0]) == 2
    assert names["np"] is np and names["numpy"] is np and names["exp"] is np.exp and names["linalg"] is np.linalg
    run(shell, "behind = type(np.ones(30_000))")
    assert names["behind"] is np.ndarray


def test_functions_of_other_cells_run_on_weft(shell: Any) -> None:
    names = run(shell, "import numpy as np\ndef f(n): return np.ones(n) * 3")
    run(shell, "%%weft\nx = f(40_000)")
    assert isinstance(names["x"], wf.Array)
    assert type(names["f"](40_000)) is np.ndarray


def test_a_comparison(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names = run(shell, "import numpy as np\nrng = np.random.default_rng(1)\nlog = []\na = np.ones(60_000)")
    capsys.readouterr()
    run(shell, "%%weft --compare\nlog.append(1)\na += rng.random(60_000)\ns = float(a.sum())\nprint('once', s > 0)")
    text = capsys.readouterr().out
    assert text.count("once True") == 1 and names["log"] == [1]
    assert "results agree (1 array, and what was printed)" in text
    assert re.search(r"NumPy [\d.]+ ms; weft [\d.]+ ms, the first time [\d.]+ ms: [\d.]+ times NumPy's speed", text)
    assert np.array_equal(names["a"], 1 + np.random.default_rng(1).random(60_000))


def test_a_comparison_finds_what_differs(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "import numpy as np\nx = np.full(60_000, 1e300)")
    run(
        shell, "%%weft --compare\ny = (x * 1e300 * 0 + 5e9).astype(np.int32)"
    )  # NaN: NumPy's cast depends on the machine
    assert "results differ:\ny: int32[60000]" in capsys.readouterr().out


def test_errors_show_the_cell_and_the_message(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    result = shell.run_cell("%%weft\nimport numpy as np\nx = np.ones(30_000)\ny = x + np.ones(4)")
    text = capsys.readouterr().out
    assert "y = x + np.ones(4)" in text and "ValueError" in text and "broadcast" in text
    assert "dsl/" not in text and "notebook.py" not in text
    assert text.count("ValueError") == 2 and not result.success  # (a notebook stops at this cell)
    shell.run_cell("import weft as wf\nwf.ones(30_000) + wf.ones(4)")
    text = capsys.readouterr().out
    assert "wf.ones(30_000) + wf.ones(4)" in text and "dsl/" not in text and text.count("ValueError") == 2


@pytest.mark.parametrize("option", ["--compares", "--compar", "--hlp"])
def test_unknown_options(option: str, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell(f"%%weft {option}\nx = 1")
    text = "".join(capsys.readouterr())
    assert f"UsageError: %%weft has the options --compare and --help, not {option}" in text
    assert "x" not in shell.user_ns and "Traceback" not in text


@pytest.mark.parametrize("cell", ["%weft?", "%%weft?", "%%weft --help\n1"])
def test_help(cell: str, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell(cell)
    text = capsys.readouterr().out
    assert "%%weft --compare" in text and "import numpy as np" in text
    shell.run_cell("%weft")
    assert "write %%weft in the first line of a cell" in "".join(capsys.readouterr())


def test_a_cell_has_its_number_and_its_lines(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%%weft\ndef f(x):\n    return x + [1, 2]", store_history=True)
    number = shell.execution_count - 1
    result = shell.run_cell("%%weft\nimport numpy as np\nf(np.ones(3))", store_history=True)
    text = capsys.readouterr().out
    assert f"Cell In[{number}], line 3, in f(x)" in text and f"Cell In[{number + 1}], line 3" in text
    assert isinstance(result.error_in_exec, ValueError) and shell.execution_count == number + 2
    shell.run_cell("%%weft\n6 * 7", store_history=True)
    assert f"Out[{number + 2}]: 42" in capsys.readouterr().out and shell.user_ns["_oh"][number + 2] == 42


def test_a_semicolon_hides_the_value(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%%weft\n6 * 7;  # hidden")
    assert capsys.readouterr().out == ""
    shell.run_cell("%%weft\nx = sin(a;\n")
    assert "SyntaxError" in capsys.readouterr().out
    shell.run_cell("6 * 7")
    assert "42" in capsys.readouterr().out


def test_an_error_that_is_raised_again_is_shown(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%%weft\ntry:\n    1 / 0\nexcept ZeroDivisionError as error:\n    kept = error\n    raise")
    assert capsys.readouterr().out.count("ZeroDivisionError: ") == 1
    shell.run_cell("raise kept")
    assert capsys.readouterr().out.count("ZeroDivisionError: ") == 1


def test_an_interrupt_shows_the_cell(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names = run(shell, "import numpy as np\nimport weft as wf")
    names["interrupt"] = wf.Array._number
    cell = "def stop(self): raise KeyboardInterrupt\nwf.Array._number = stop\nfloat(wf.ones(30_000).sum())"
    result = shell.run_cell(cell)
    wf.Array._number = names["interrupt"]  # type: ignore[method-assign]
    text = capsys.readouterr().out
    assert "float(wf.ones(30_000).sum())" in text and "KeyboardInterrupt" in text and "dsl/" not in text
    assert isinstance(result.error_in_exec, KeyboardInterrupt)


@pytest.mark.parametrize(
    ("cell", "name"),
    [("wf.zero(3)", "zeros"), ("wf.linalg.invv", "inv"), ("wf.ones(3).maxx()", "max"), ("%%weft\nnp.zero(3)", "zeros")],
)
def test_similar_names_are_suggested(cell: str, name: str, shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "import numpy as np\nimport weft as wf")
    shell.run_cell(cell)
    assert capsys.readouterr().out.rstrip().endswith(f". Did you mean: '{name}'?")
    shell.run_cell("'text'.uper")
    assert "Did you mean" not in capsys.readouterr().out


def test_a_comparison_copies_the_state_of_functions_and_objects(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names = run(
        shell,
        "import numpy as np\nrng = np.random.default_rng(5)\nlog = []\n"
        "def draw(): return rng.normal(size=40_000)\n"
        "class Model:\n"
        "    u = None\n"
        "    def step(self):\n"
        "        self.u = (0 if self.u is None else self.u) + draw()\n"
        "        log.append(float(self.u.sum()))\n"
        "model = Model()",
    )
    capsys.readouterr()
    run(shell, "%%weft --compare\nmodel.step()\nlast = model.u")
    assert "results agree" in capsys.readouterr().out and len(names["log"]) == 1
    assert np.array_equal(names["model"].u, np.random.default_rng(5).normal(size=40_000))


def test_a_comparison_of_objects_that_cannot_be_copied(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "import threading\nclass Model:\n    lock = threading.Lock()\nmodel = Model()\nmodel.lock = Model.lock")
    capsys.readouterr()
    names = run(shell, "%%weft --compare\nx = type(model.lock)")
    assert "cannot run several times (NumPy: TypeError: cannot pickle" in capsys.readouterr().out and "x" in names


def test_results_have_pictures(shell: Any) -> None:
    names = run(
        shell,
        "import weft as wf\nwith wf.profile() as p:\n    x = wf.evaluate(wf.ones(50_000) * 3)\nz = wf.explain(x * 2)",
    )
    profile, plan = (shell.display_formatter.format(names[name])[0]["text/html"] for name in ("p", "z"))
    assert "<svg" in profile and "Cell In[" in profile and "wf.evaluate(wf.ones(50_000) * 3)" in profile
    assert "<svg" in plan and "Cell In[" in plan
