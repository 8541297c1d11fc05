"""Tests that run benchmark suites with small sizes, and check the results."""

from __future__ import annotations

import json
import xml.dom.minidom
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import classics, elements, fused, launch_host, npbench, operations, packages, picture, small, sweep
from benchmarks.processes import EMPTY_CACHE, NUMPY, WEFT
from weft.runtime import override

command = import_module("benchmarks.__main__")

DATA = "import numpy as np\n\ndef initialize(N):\n    return np.ones(N), np.arange(float(N))\n"
PROGRAMS = {
    "scale": "def scale(x, y):\n    x[:] = np.sqrt(y) * 2\n    return x.sum(), y[1:] - y[:-1]\n",
    "wrong": "def wrong(x, y):\n    return x + ('weft' in str(type(x)))\n",
    "hangs": "def hangs(x, y):\n    while 'weft' in str(type(x)):\n        pass\n    return x\n",
    "dies": "import os\n\ndef dies(x, y):\n    if 'weft' in str(type(x)):\n        os._exit(3)\n    return x\n",
}
PORT = (
    "import jax.numpy as jnp\n\ndef scale(x, y):\n    return (jnp.sqrt(y) * 2).sum(), y[1:] - y[:-1], jnp.sqrt(y) * 2\n"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with small programs, laid out like a checkout of NPBench."""
    folder = tmp_path / "checkout"
    (folder / "bench_info").mkdir(parents=True)
    for name, text in PROGRAMS.items():
        program = folder / "npbench" / "benchmarks" / name
        program.mkdir(parents=True)
        (program / f"{name}.py").write_text(DATA)
        (program / f"{name}_numpy.py").write_text(f"import numpy as np\n{text}")
        info = {
            "relative_path": name,
            "module_name": name,
            "func_name": name,
            "parameters": {"S": {"N": 100_000}},
            "init": {"func_name": "initialize", "input_args": ["N"], "output_args": ["x", "y"]},
            "input_args": ["x", "y"],
            "array_args": ["x", "y"],
            "output_args": ["x"] if name == "scale" else [],
        }
        (folder / "bench_info" / f"{name}.json").write_text(json.dumps({"benchmark": info}))
    (folder / "npbench" / "benchmarks" / "scale" / "scale_jax.py").write_text(PORT)
    return folder


def run(arguments: list[str], folder: Path) -> dict[str, Any]:
    assert command.main(["--device", "cpu", "--quick", "--turns", "2", *arguments, "--out", str(folder)]) == 0
    for path in folder.glob("*.svg"):
        xml.dom.minidom.parse(str(path))
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def test_npbench(checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--suite", "npbench", "--data", str(checkout), "--programs", "scale,wrong", "--peers", "jax"]
    found = run([*options, "--limit", "60"], tmp_path / "out")["npbench-S"]
    scale, wrong = found["results"]
    with_jax = {"JAX"} if npbench.find_spec("jax") else set()
    assert not scale["problems"]
    assert set(scale["first"]) == {NUMPY, WEFT, EMPTY_CACHE} | with_jax
    assert set(scale["turns"]) == {NUMPY, WEFT} | with_jax and all(len(t) == 2 for t in scale["turns"].values())
    assert len(scale["calls"]) >= 3 and all({"seconds", "plans", "compilations"} <= set(c) for c in scale["calls"])
    assert scale["calls"][-1]["plans"] == 0 and 0 <= scale["kernel_share"] <= 1
    assert wrong["problems"][EMPTY_CACHE].startswith("wrong: result 0 differs by up to 1")
    assert found["summary"]["failed or wrong on weft"] == "1: wrong"
    assert "| scale |" in capsys.readouterr().out


def test_programs_that_hang_or_die_end_no_run(checkout: Path, tmp_path: Path) -> None:
    options = ["--suite", "npbench", "--data", str(checkout), "--programs", "hangs,dies", "--peers", "numpy"]
    hangs, dies = run([*options, "--limit", "3"], tmp_path / "out")["npbench-S"]["results"]
    assert hangs["problems"] == {EMPTY_CACHE: "not done after 3 s"}
    assert dies["problems"] == {EMPTY_CACHE: "the process ended with status 3"}
    assert set(hangs["turns"]) == set(dies["turns"]) == {NUMPY}


def test_a_classical_program(tmp_path: Path) -> None:
    found = run(["--suite", "classical", "--programs", "poisson", "--limit", "60"], tmp_path)["classical"]
    (poisson,) = found["results"]
    assert not poisson["problems"] and set(poisson["turns"]) == {NUMPY, WEFT}
    assert found["summary"]["programs"] == 1 and "below 0.6 of NumPy's speed" in found["summary"]


def test_a_program_with_another_package(tmp_path: Path) -> None:
    found = run(["--suite", "packages", "--programs", "sympy_formulas", "--limit", "60"], tmp_path)["packages"]
    (formulas,) = found["results"]
    assert not formulas["problems"] and set(formulas["turns"]) == {NUMPY, WEFT}
    assert packages.differs("", {"printed": np.array("1\n2")}, {"printed": np.array("1\n3")}) == "'3' instead of '2'"


def test_launches_are_timed_on_a_stand_in_for_the_driver() -> None:
    assert any("as a graph" in name for name in launch_host.measure())


def test_a_first_chain(tmp_path: Path) -> None:
    found = run(["--suite", "first", "--programs", "arithmetic", "--limit", "60"], tmp_path)["first"]
    (chain,) = found["results"]
    assert not chain["problems"] and set(chain["first"]) == {NUMPY, WEFT, EMPTY_CACHE}


# (these compile the most; the benchmark compares the results of its programs, too)
LONG = {name: [pytest.mark.slow] for name in ("lstm", "wave_fdtd")}


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG.get(name, [])) for name in classics.PROGRAMS])
def test_classical_programs_are_right(name: str) -> None:
    spec = {"name": name, "size": classics.PROGRAMS[name].small}
    found = []
    for side in (NUMPY, WEFT):
        subject = classics.load({**spec, "side": side})
        arguments = subject.arguments()
        found.append(subject.results(arguments, subject.call(arguments)))
    assert classics.differs(WEFT, *found) == ""


@pytest.mark.parametrize("name", elements.PROGRAMS)
def test_loops_over_elements_are_right(name: str) -> None:
    found = []
    for side in (NUMPY, WEFT):
        subject = elements.load({"name": name, "size": elements.FEW, "side": side})
        with override(immediate=16384):
            found.append(subject.results([elements.FEW], subject.call([elements.FEW])))
    assert classics.differs(WEFT, *found) == ""


def test_every_classical_program_is_measured() -> None:
    assert {path.stem for path in classics.FOLDER.glob("[!_]*.py")} == set(classics.PROGRAMS)


def test_ports_are_compared_with_what_they_return() -> None:
    theirs = {"result 0": np.ones(3), "array A": np.arange(3.0), "array b": np.zeros(3)}
    info = {"output_args": ["A"]}
    assert npbench.compare_port(info, {"result 0": np.ones(3), "result 1": np.arange(3.0)}, theirs) == ""
    assert "result 1 is off" in npbench.compare_port(info, {"result 0": np.ones(3), "array A": np.ones(3)}, theirs)


def test_small_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small, "WARM", 0.01)
    monkeypatch.setattr(small, "FILLED", 1e-4)
    found = run(["--suite", "small"], tmp_path)["small"]
    assert len(found["results"]) == len(small.EXPRESSIONS) * len(small.SIZES)
    assert found["summary"]["wrong"] == 0
    assert all(line["numpy_us"] > 0 and line["weft_us"] > 0 for line in found["results"])


def test_ratios_are_drawn_from_one() -> None:
    drawn = picture.draw_ratios({"a < b": {"weft": 0.5, "best port": 20.0}, "empty": {}}, "title & more")
    assert xml.dom.minidom.parseString(drawn).documentElement.tagName == "svg"
    assert drawn.count("<rect") == 3
    assert xml.dom.minidom.parseString(picture.draw_ratios({}, "")).documentElement.tagName == "svg"


def test_calls_of_functions_on_small_arrays(tmp_path: Path) -> None:
    found = run(["--suite", "calls"], tmp_path)["calls"]
    names = {result["call"] for result in found["results"]}
    assert {"cumsum(x)", "m.cumsum(0)", "linalg.norm(m)"} <= names and found["summary"]["errors on weft"] == 0
    assert all(result["ratio"] > 0 for result in found["results"])
    assert "cumsum(x) |" in (tmp_path / "calls.md").read_text()


def test_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "FILLED", 1e-4)
    monkeypatch.setattr(fused, "WARM_LEAST", 0.0)
    found = run(["--suite", "sweep"], tmp_path)["sweep"]
    assert len(found["results"]) > 40 and not [r for r in found["results"] if r["problem"]]
    assert found["summary"]["cases"] == len(found["results"])
    report = (tmp_path / "sweep.md").read_text()
    assert "| operation | cases |" in report and "Errors" not in report


def test_the_sweep_has_every_operation_with_every_shape_layout_and_dtype() -> None:
    cases = list(operations.cases())
    assert len(cases) == len(set(cases)) > 1_500
    for name in operations.OPERATIONS:
        own = [c for c in cases if c.operation == name]
        assert {c.shape for c in own} == set(operations.shapes(operations.ELEMENTS))
        assert {c.layout for c in own} == set(operations.LAYOUTS)
        assert {c.dtype for c in own} == set(operations.DTYPES)


def test_the_sweep_reports_what_is_wrong_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    case = operations.Case("x + y", "1-D", "C", "int32")
    assert sweep.measure_case(case, 100, 1).problem == ""
    monkeypatch.setitem(operations.OPERATIONS, "x + y", lambda xp, x, y, e: x + (xp is np))
    assert sweep.measure_case(case, 100, 1).problem == "wrong in 100 of 100"
    monkeypatch.setitem(operations.OPERATIONS, "x + y", lambda xp, x, y, e: 1 if xp is np else {}[x.size])
    assert sweep.measure_case(case, 100, 1).problem == "KeyError: 100"
    monkeypatch.setitem(operations.OPERATIONS, "x + y", lambda xp, x, y, e: np.tril(1))
    assert sweep.measure_case(case, 100, 1) is None


def test_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(["--suite", "draws", "--only", "random", "Monte"], tmp_path)["draws"]
    assert {line["program"] for line in found["results"]} >= {"random", "Monte Carlo pi", "Monte Carlo option"}
    assert all(line["correct"] and line["ratio"] > 0 for line in found["results"])
    assert "| Monte Carlo pi |" in capsys.readouterr().out
