"""Tests of the benchmark command on the CPU and on a simulated GPU."""

from __future__ import annotations

import json
import subprocess
import time
import xml.dom.minidom
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import cuda_cpp, explicit, fused, launch_cost, peers, picture, sizes
from benchmarks.more_programs import MORE
from benchmarks.programs import PROGRAMS, Arrays, Program
from tests.stand_in import RunningDevice, RunningStandIn

command = import_module("benchmarks.__main__")
registry = import_module("weft.runtime.devices")


@pytest.mark.parametrize(
    "program", [p for p in PROGRAMS if "softmax" in p.name or "axpy" in p.name], ids=lambda p: p.name
)
def test_sizes_are_found(program: Any) -> None:
    for nbytes in (10_000, 1_000_000):
        inputs = program.inputs(np.random.default_rng(0), sizes.size_for(program, nbytes))
        moved = sum(x.nbytes for x in inputs) + sum(x.size * 4 for x in program.expected(inputs))
        assert abs(moved - nbytes) < 0.1 * nbytes


def test_pictures_are_svg() -> None:
    bars = picture.draw_bars({"a < b": {"weft": 2.0, "NumPy": 1.0}, "empty": {}}, "title & more", "GB/s")
    curves = picture.draw_curves({"sum": {"weft": [(1e3, 0.1), (1e6, 20.0)], "NumPy": [(1e3, 0.2)]}}, "bytes", "GB/s")
    for text in (bars, curves, picture.draw_curves({}, "", "")):
        assert xml.dom.minidom.parseString(text).documentElement.tagName == "svg"
    assert bars.count("<rect") == 3 and curves.count("<circle") == 3


def run(arguments: list[str], folder: Path) -> dict[str, Any]:
    assert command.main([*arguments, "--out", str(folder)]) == 0
    for path in folder.glob("*.svg"):
        xml.dom.minidom.parse(str(path))
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def test_on_the_cpu(tmp_path: Path) -> None:
    common = ["--quick", "--turns", "2", "--peers", "numpy", "--more", "--only", "axpy", "k-means", "--sizes", "1e4"]
    found = run(["--suite", "fused", "--suite", "sizes", *common], tmp_path)
    assert "suites: fused, sizes" in (tmp_path / "README.md").read_text().lower()
    (fused,) = [value for name, value in found.items() if name.startswith("fused")]
    assert [r["program"].partition(",")[0] for r in fused["results"]] == ["axpy chain", "k-means step"]
    assert all(set(r["turns_ms"]) == {"weft", "NumPy", "copy"} and not r["problems"] for r in fused["results"])
    assert {r["program"] for r in found["sizes"]["results"]} == {"axpy chain"}


def test_on_a_gpu_everything_runs_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(registry._devices, "cuda:0", RunningDevice(RunningStandIn()))
    monkeypatch.setattr(peers, "COPIED_ON_DEVICE", 1 << 16)
    monkeypatch.setattr(cuda_cpp, "is_there", lambda: False)
    monkeypatch.setattr(launch_cost, "CALLS", 2)
    figures = {"kernels": (lambda: explicit.measure(300, 20),), "overhead": (launch_cost.measure,)}
    monkeypatch.setattr(command, "FIGURES", figures)
    monkeypatch.setattr(command, "WHOLE", dict.fromkeys(("fused", "sizes", "kernels", "overhead"), 0.25))
    common = [
        "--together",
        "--quick",
        "--turns",
        "2",
        "--minutes",
        "2",
        "--only",
        "axpy",
        "histogram",
        "--sizes",
        "1e3",
    ]
    found = run(["--device", "cuda", *common, "--peers", "numpy"], tmp_path)
    assert {name.partition("-")[0] for name in found} == {"fused", "sizes", "kernels", "overhead"}
    (fused,) = [value for name, value in found.items() if name.startswith("fused")]
    assert fused["machine"] == "Stand-in" and fused["capability"] == "9.0"
    by_name = {r["program"].partition(",")[0]: r for r in fused["results"]}
    assert set(by_name) == {"axpy chain", "histogram"} and not any(r["problems"] for r in by_name.values())
    events = by_name["axpy chain"]["events_ms"]["weft"]
    assert len(set(events)) == 1 and 1.5 / events[0] == pytest.approx(round(1.5 / events[0]), rel=0.01), (
        "the driver's events"
    )
    assert set(by_name["axpy chain"]["turns_ms"]) == {"weft", "NumPy", "copy"}
    assert any("n_body of 300, weft" in key for key in found["kernels"]["results"])
    assert "share of copy" in capsys.readouterr().out


def test_figures_stay_where_the_rest_of_their_suite_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> dict[str, str]:
        raise TimeoutError

    monkeypatch.setattr(command, "FIGURES", {"overhead": (lambda: {"one thing": "2 us"}, fails)})
    with pytest.raises(TimeoutError):
        run(["--suite", "overhead"], tmp_path)
    assert json.loads((tmp_path / "overhead.json").read_text())["results"] == {"one thing": "2 us"}


def test_more_programs_say_what_they_are() -> None:
    assert len({p.name for p in (*PROGRAMS, *MORE)}) == len(PROGRAMS) + len(MORE)


@pytest.mark.slow
@pytest.mark.skipif(cuda_cpp.find_nvcc() is None, reason="there is no nvcc")
def test_the_programs_in_cuda_cpp_compile(tmp_path: Path) -> None:
    text = cuda_cpp.build(cuda_cpp.find_nvcc() or "", "sm_90", tmp_path).read_bytes()
    assert all(f"run_{name}".encode() in text for name in cuda_cpp.OUTPUTS)


def test_whoever_fails_is_left_out_and_the_others_go_on() -> None:
    program = next(p for p in PROGRAMS if p.name.startswith("axpy"))
    inputs = program.inputs(np.random.default_rng(0), program.quick)

    def good(program: Program, inputs: Arrays) -> Any:
        return peers.with_numpy(program, inputs)

    def missing(program: Program, inputs: Arrays) -> Any:
        raise ImportError("libcublas.so")

    def wrong(program: Program, inputs: Arrays) -> Any:
        return lambda: peers.with_numpy(program, inputs)() + 1

    def strange(program: Program, inputs: Arrays) -> Any:
        return lambda: "no array"

    def fails_later(program: Program, inputs: Arrays) -> Any:
        calls = iter(range(6))

        def call() -> Any:
            if next(calls) == 5:
                raise MemoryError("no memory")
            return good(program, inputs)()

        return call

    def hangs(program: Program, inputs: Arrays) -> Any:
        return lambda: time.sleep(100)

    made = [peers.Peer(f.__name__, "", f) for f in (missing, wrong, strange, fails_later, good, hangs)]
    result = fused.run_program(program, inputs, made, 1, 6, 3.0)
    assert set(result.problems) == {"missing", "wrong", "strange", "fails_later", "hangs"}
    assert "libcublas" in result.problems["missing"] and "no memory" in result.problems["fails_later"]
    assert result.problems["wrong"].startswith("wrong: off by")
    assert set(result.turns_ms) == {"weft", "good", "copy"}
    assert result.best == "good" and "| - |" in fused.as_markdown([result], {})


def test_each_suite_has_a_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[list[str]] = []
    nothing = SimpleNamespace(status="no driver", message="no library", remedy="")
    monkeypatch.setattr(command, "probe", lambda: nothing)

    def run(command: list[str], check: bool, timeout: float) -> Any:
        given.append(command)
        if "sizes" in command:
            raise subprocess.TimeoutExpired(command, timeout)
        return SimpleNamespace(returncode=int("kernels" in command))

    assert command.main(["--device", "cuda"]) == 1
    assert "no GPU: " in capsys.readouterr().out
    monkeypatch.setattr(command, "probe", lambda: SimpleNamespace(status="ok"))
    monkeypatch.setattr(command.subprocess, "run", run)
    assert command.main(["--device", "cuda", "--peers", "--minutes", "4"]) == 2
    suites = [arguments[arguments.index("--suite") + 1] for arguments in given]
    assert suites == [name for name, part in command.WHOLE.items() if part * 4 >= 0.25]
    assert sum(float(arguments[-1]) for arguments in given) <= 4
    assert "sizes: no end" in capsys.readouterr().out
