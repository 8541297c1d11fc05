"""Tests of profiles, ranges for NVIDIA's tools, and the progress line of compilations."""

from __future__ import annotations

import gc
import io
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft as wf
import weft.runtime.listening as sound
from tests.dsl.test_memory import Pair, registry
from tests.runtime.cpu.random import native_streams
from tests.stand_in import RunningDevice, RunningStandIn
from weft import cuda
from weft.dsl.profile import LaunchTime, _Clock
from weft.runtime import LaunchNote, Listening, draw_into, get_device, override, read_draw
from weft.runtime.cpu.random.random_streams import readiness
from weft.runtime.cuda.cuda_device import CudaDevice

LINES = Path(__file__).read_text().splitlines()


def line_of(text: str) -> int:
    """Return the number of the line in this file that ends with a given comment."""
    return next(k for k, line in enumerate(LINES, 1) if line.endswith(f"# {text}"))


@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_a_profile(device: str) -> None:
    with wf.device(device):
        x = wf.asarray(np.arange(40_000.0))
        before = x * 3
        with wf.profile() as p:
            assert before._storage.buffer is not None, "what was recorded before does not count"
            for _ in range(3):
                y = wf.cbrt(wf.arctan2(x, 0.731))  # the profiled line: kernels that no other test compiles
                wf.evaluate(y)
            z = wf.expm1(wf.arcsinh(x))  # recorded within the profile, and evaluated at its end
    assert z._storage.buffer is not None
    assert len(p.launches) == 4 and not Listening.listeners
    first = next(kernel for kernel in p.kernels if len(kernel.times) == 3)
    assert first.device == device and first.note.nbytes == 640_000
    line = line_of("the profiled line: kernels that no other test compiles")
    assert first.note.members == (f"arctan2 (test_profile.py:{line})", f"cbrt (test_profile.py:{line})")
    assert first.note.instructions >= 80_000
    assert first.compiling > 0 and first.rate > 0 and first.share is not None
    assert all(0 <= one.begin and one.begin + one.seconds <= p.seconds for one in p.launches)
    text = str(p)
    assert text.startswith("4 launches, ") and "compiling and loading 2 kernels" in text
    assert f"fused: arctan2 (test_profile.py:{line}), cbrt" in text and "640.0 kB" in text
    assert p.counts["plans"] == 2 and p.counts["lowered"] >= 2 and 0 < p.counts["planning"] < p.seconds
    assert "; 2 plans made, " in p.summary and " ms for finding, making and compiling plans" in p.summary
    with override(interpret="always"), wf.profile() as again:
        wf.evaluate(wf.sqrt(wf.asarray(np.arange(7.0), device="cpu")))
    assert again.counts["plans"] == 0 and "1 program interpreted" in again.summary


@pytest.mark.parametrize("how", ["always", "never"])
def test_times_of_lines(how: str) -> None:
    x = wf.asarray(np.arange(40_000.0))
    with override(interpret=how), wf.profile() as p:
        y = wf.exp(x * 0.1)  # the first of two lines
        wf.evaluate(y + 1)  # the second of two lines
    first, second = (p.lines[__file__, line_of(f"the {name} of two lines")] for name in ("first", "second"))
    assert first.seconds > 5 * second.seconds > 0, "divided by the costs of the operations"
    assert first.seconds + second.seconds == pytest.approx(sum(one.seconds for one in p.launches))
    assert first.kernels == second.kernels and 0 < second.nbytes < first.nbytes


def test_interpreted_programs_count_at_all_of_their_lines() -> None:
    x = wf.evaluate(wf.ones(200_000))
    with override(interpret="always"), wf.profile() as p:
        y = x * 3
        z = wf.sin(y) + 1
        wf.evaluate(z)
    (kernel,) = p.kernels
    assert kernel.note.nbytes == 3 * x.nbytes  # x is read; y and z are written
    lines = sorted(number for _, number in p.lines)
    assert len(lines) == 2 and lines[1] == lines[0] + 1
    assert sum(one.seconds for one in p.lines.values()) == pytest.approx(kernel.seconds)


def test_drawn_numbers_count_at_their_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness(0), "loaded", native_streams.code(0))
    draw, here = read_draw("normal", (), {"size": 40_000}), sys._getframe()
    assert draw is not None
    with wf.profile() as p:
        assert draw_into(np.empty(40_000), np.random.default_rng(1), "normal", draw, (here.f_code, here.f_lasti))
    (line,) = p.lines
    assert line[0] == __file__ and p.lines[line].seconds == p.kernels[0].seconds


def test_kernels_for_several_layouts_are_one_row() -> None:
    note = LaunchNote("fused", ("add (a.py:1)",), 100, 10, "a.py:1", 7)
    p = wf.profile()
    with p:
        pass
    p._clocks["cpu"] = _Clock(get_device("cpu"))
    for k, one in enumerate([note, note._replace(key=8, nbytes=400), note, note._replace(members=("sin (a.py:2)",))]):
        p.launches.append(LaunchTime(one, "cpu", "main", 0.0, (k + 1) * 1e-3, 0.0, 0.0))
    assert [len(group) for group in p.groups] == [2, 1] and len(p.kernels) == 3
    _, first, second = sorted(p.rows(), key=lambda row: row[-1] != "kernel")
    assert first[-1] == "fused: add (a.py:1) (2 kernels)" and first[2] == "3" and first[0] == "6 ms"
    assert first[4] == "200 B" and second[-1] == "fused: sin (a.py:2)" and len(p.rows()) == 3


def test_the_kernel_of_the_partial_results_writes_what_it_materializes() -> None:
    with wf.device("cpu"), override(interpret="never", threads=2):
        x = wf.evaluate(wf.ones((700, 700)))
        with wf.profile() as p:
            y = x * 3
            total = wf.max(abs(y))
            wf.evaluate(y, total)
    partial, finish = (next(k.note for k in p.kernels if k.note.name == name) for name in ("partial", "finish"))
    assert 2 * x.nbytes <= partial.nbytes < 2.1 * x.nbytes and finish.nbytes < 0.1 * x.nbytes


def test_nothing_ran() -> None:
    with wf.profile() as p:
        pass
    assert "0 launches" in str(p) and p.kernels == []
    assert "<table>" in p._repr_html_()


def test_profiles_nest_and_see_every_thread() -> None:
    x = wf.asarray(np.arange(10.0))

    def work() -> None:
        wf.evaluate(x * 2)

    with wf.profile() as outer:
        wf.evaluate(x + 1)
        with wf.profile() as inner:
            thread = threading.Thread(target=work, name="the other")
            thread.start()
            thread.join()
    assert [len(p.launches) for p in (outer, inner)] == [2, 1]
    assert inner.launches[0].thread == "the other"


def test_an_error_inside_is_not_hidden() -> None:
    with pytest.raises(KeyError), wf.profile():
        raise KeyError
    assert not Listening.listeners


def test_explicit_kernels_and_host_calls() -> None:
    @wf.kernel
    def enlarge(x: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2.3125  # (no other test compiles this kernel)

    x = wf.asarray(np.ones((64, 64)))
    with wf.profile() as p:
        flat = x.reshape(-1)
        enlarge[16, 256](flat)
        wf.evaluate(x @ x)
    kernels = {kernel.note.name: kernel for kernel in p.kernels}
    line = enlarge.py_func.__code__.co_firstlineno
    assert kernels["enlarge"].note.location == f"test_profile.py:{line}"
    assert kernels["enlarge"].note.nbytes == 64 * 64 * 8 and kernels["enlarge"].compiling > 0
    assert kernels["call matmul"].note.nbytes == 3 * 64 * 64 * 8
    assert float(x[0, 0]) == 2.3125


def test_a_trace(tmp_path: Path) -> None:
    x = wf.asarray(np.arange(1000.0))
    with wf.profile() as p:
        wf.evaluate(wf.exp2(x))
    path = tmp_path / "trace.json"
    p.chrome_trace(path)
    trace = json.loads(path.read_text())
    bars = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    kinds = {e["cat"]: e for e in bars}
    assert {"kernel", "launch"} <= set(kinds)
    assert names[kinds["kernel"]["pid"], kinds["kernel"]["tid"]] == "kernels"
    assert names[kinds["launch"]["pid"], kinds["launch"]["tid"]] == threading.current_thread().name
    assert kinds["kernel"]["args"]["bytes"] == 16_000
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in bars)
    assert all({"name", "ph", "pid", "tid"} <= set(e) for e in trace["traceEvents"])


def test_a_notebooks_table_escapes_names() -> None:
    x = wf.asarray(np.arange(5.0))
    code = compile("def f(x):\n    return x * 3 % 7\n", "<b>.py", "exec")
    scope: dict[str, Any] = {"__name__": "user"}
    exec(code, scope)
    with wf.profile() as p:
        wf.evaluate(scope["f"](x))
    assert "multiply (&lt;b&gt;.py:2)" in p._repr_html_()


def test_what_numpy_does_on_the_host_is_told() -> None:
    with wf.device("cpu"):  # (GPUs sort by kernels)
        x = wf.asarray(np.arange(1000.0)[::-1])
        with wf.profile() as p:
            order = np.argsort(x * 2)
        assert order.tolist() == [*range(999, -1, -1)]
        (call,) = [one.note for one in p.launches if "host" in one.note.name]
        assert call.name == "numpy.argsort on the host"
        assert call.nbytes == 8000
        assert call.location.startswith("test_profile.py:")


def test_a_roofline_needs_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure"):  # (another test may have loaded it)
        monkeypatch.setitem(sys.modules, name, None)
    with wf.profile() as p:
        pass
    with pytest.raises(ImportError, match=r"pip install 'weft\[plot\]'"):
        p.roofline("nowhere.svg")


def test_a_roofline(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    x = wf.asarray(np.arange(1000.0))
    with wf.profile() as p:
        wf.evaluate(x * 2 + 1)
    p.roofline(tmp_path / "roof.svg")
    assert "<svg" in (tmp_path / "roof.svg").read_text()


# -- a GPU ---------------------------------------------------------------------------------------------------


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    table = Pair()
    monkeypatch.setitem(registry._devices, "cuda:0", CudaDevice(0, table))
    yield table


def test_times_of_a_gpu_are_its_events(gpu: Pair) -> None:
    device = registry.get_device("cuda:0")
    note = sound.LaunchNote("kernel", nbytes=3_000_000)
    with wf.profile() as p:
        gpu.calls.clear()
        sound.launch_heard(device, note, lambda: gpu.calls.append(("the launch", ())))
        names = [name for name, _ in gpu.calls if name in ("cuEventRecord", "the launch")]
        assert names == ["cuEventRecord", "cuEventRecord", "the launch", "cuEventRecord"], "a clock, and around it"
        assert not gpu.named("cuEventSynchronize", "cuStreamSynchronize")
    (one,) = p.launches
    assert one.seconds == 0.0015, "what the driver says"


def test_a_profile_of_a_gpu() -> None:
    driver = RunningStandIn()
    device = RunningDevice(driver)
    with wf.device(device):
        scale = wf.kernel(_scale)
        x, out = wf.asarray(np.arange(3000.0)), cuda.device_array(3000)
        stream = wf.stream()
        for _ in range(4):  # enough repetitions for a CUDA graph
            wf.evaluate((x + 1).sum(), x.cumsum() * 2, x[::-1] + 3)
        with wf.profile() as p:
            wf.evaluate((x + 1).sum(), x.cumsum() * 2, x[::-1] + 3)
            driver.forget()
            scale[12, 256, stream](x, out)
            streams = {call.arguments[1] for call in driver.named("cuEventRecord")}
            assert stream.handle in streams
            np.testing.assert_array_equal(out.numpy(), np.arange(3000.0) * 2)
    names = [kernel.note.name for kernel in p.kernels]
    assert names.count("fused") >= 3, "one by one, not as a graph"
    assert "_scale" in names and "copy to the host" in names
    assert all(one.seconds == 0.0015 for one in p.launches), "what the driver's events say"
    gc.collect()
    assert not driver.memory.wrong
    driver.close()


def _scale(x, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * 2


def test_events_mark_the_threads_stream(gpu: Pair) -> None:
    device = registry.get_device("cuda:0")
    with wf.stream("cuda:0") as stream, wf.profile():
        gpu.calls.clear()
        sound.launch_heard(device, sound.LaunchNote("kernel"), lambda: None)
        assert {call[2] for call in gpu.named("cuEventRecord")} == {stream.handle}


def test_ranges(gpu: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    stub = SimpleNamespace(
        push_range=lambda name, domain: seen.append((name, domain)), pop_range=lambda domain: seen.append(domain)
    )
    monkeypatch.setitem(sys.modules, "nvtx", stub)
    monkeypatch.setattr(Listening, "listeners", ())
    with override(nvtx=True):
        device = CudaDevice(0, gpu)
        CudaDevice(1, gpu)
    assert len(Listening.listeners) == 1
    sound.launch_heard(device, sound.LaunchNote("fused", location="program.py:3"), lambda: seen.append("launch"))
    assert seen == [("fused (program.py:3)", "weft"), "launch", "weft"]
    monkeypatch.setattr(Listening, "listeners", ())
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with override(nvtx=True), pytest.raises(wf.SettingError, match=r"pip install 'weft\[nvtx\]'"):
        CudaDevice(0, gpu)


# -- progress ------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "wanted", "seconds", "shown"),
    [
        (Terminal, True, 0.2, True),
        (Terminal, True, 0.0, False),
        (Terminal, False, 0.2, False),
        (io.StringIO, True, 0.2, False),
    ],
)
def test_a_long_compilation_is_shown_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: Any, wanted: bool, seconds: float, shown: bool
) -> None:
    monkeypatch.setattr(sound, "PATIENCE", 0.05)
    written = stream()
    monkeypatch.setattr(sys, "stderr", written)
    with override(progress=wanted), sound.building("softmax", "sm_90", "compile", 0):
        time.sleep(seconds)
    text = written.getvalue()
    assert ("weft: compiling softmax for sm_90" in text) == shown
    if shown:
        assert text.endswith("\r"), "the line is taken away"


def test_a_compilation_while_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with override(progress=True), sound.building("softmax", "sm_90", "compile", 0):
        compiled = True
    assert compiled


@pytest.mark.cpu
def test_counters_that_are_reset_within_a_profile_are_not_negative() -> None:
    with override(interpret="never"):
        x = wf.evaluate(wf.asarray(np.arange(50_000.0)) * 3.25 + 1)
        with wf.profile() as p:
            wf.reset_statistics()
            wf.evaluate(x + 1)
    assert "-" not in p.summary
