"""Tests of plans that a second process compiles."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import weft as wf
import weft.runtime as runtime
from tests.fusion.run.test_primitives import same_bits
from weft.fusion.graph.expr import topological
from weft.fusion.plan import plan_cache
from weft.fusion.plan.live_graph import LiveGraph, make_graph
from weft.fusion.run import background, execute, planning, tiers
from weft.runtime import Request, override

pytestmark = pytest.mark.cpu

ROOT = Path(__file__).parents[3]

PROGRAM = """
import sys, time
import numpy as np, weft as wf
x = np.linspace(0.5, 2.0, 60_000)

def step(n):
    y = wf.asarray(x[:n])
    for k in range(3):
        y = y * 0.5 + wf.sqrt(y[::-1]) / (y + 1)
    return np.asarray(y)

first, end = step(60_000), time.monotonic() + 60
while not wf.statistics()["plans_read"] and time.monotonic() < end:
    assert (step(60_000) == first).all()
    time.sleep(0.002)  # (waiting costs nothing; this process may otherwise compile the plan before the second one does)
counts = wf.statistics()
print(counts["plans"], counts["compilations"], counts["plans_read"], counts["interpreted"] > 2, "llvmlite" in sys.modules)
assert (step(60_000) == first).all() and (step(50_000) == step(50_000)).all()
"""


@pytest.mark.parametrize("enabled", [True, False])
def test_a_program_is_interpreted_until_its_plan_is_on_disk(enabled: bool, tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu", "WEFT_CACHE_DIR": str(tmp_path / "cache")}
    more = {"WEFT_STRICT": "1", "WEFT_BACKGROUND": str(int(enabled)), "PATH": os.environ["PATH"]}
    program = PROGRAM if enabled else PROGRAM.replace('["plans_read"]', '["plans"]', 1)
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env | more, timeout=200)
    assert not told.returncode, told.stderr
    plans, compilations, read, *rest = told.stdout.split()
    # (LLVM compiles the runtime's own code in the first process)
    assert (plans, read) == (("0", "1") if enabled else ("1", "0"))
    assert (compilations == "0") == enabled and rest[0] == "True"


def graph_of(*arrays: Any) -> tuple[LiveGraph, plan_cache.Form]:
    graph = make_graph([a._storage.expr for a in arrays], {})
    return graph, plan_cache.find_form("cpu", graph, None)


def test_a_graph_has_the_same_form_in_the_second_process() -> None:
    x = wf.asarray(np.arange(60.0).reshape(6, 10))
    y = wf.asarray(np.arange(60.0, dtype=np.float32)).astype(ml_dtypes.bfloat16) * 3
    z = x[1:, ::-2] * 2.5 - 7
    x[2:4] = z[:2, :1]
    graph, form = graph_of(z.sum(axis=0), y, x[wf.asarray(np.array([3, 1]))], wf.linalg.norm(z))
    copy = background.restore(*pickle.loads(pickle.dumps(background._flatten(form.nodes, graph))))
    again = plan_cache.find_form("cpu", copy, None)
    assert again.key == form.key and again.encoder.values == form.encoder.values
    own, theirs = ([node.location for node in topological(g.versions)] for g in (graph, copy))
    assert [own.index(location) for location in own] == [theirs.index(location) for location in theirs]


def test_a_graph_with_a_user_function_is_compiled_in_this_process() -> None:
    @wf.vectorize
    def twice(x: Any) -> Any:
        return 2 * x

    x = wf.asarray(np.arange(300.0))
    graph, form = graph_of(twice(x) + 1)
    with override(plans=True, background=True):
        assert background.request_plan(form, graph, None, x._storage.device, 1) is None


def request(state: str, submitted: list[str]) -> Any:
    """Return a replacement for `submit`. It adds its first argument, a function's name, to `submitted`, and returns a request in the given state."""

    def submit(function: str, arguments: Any, then: Any, urgent: bool) -> Request:
        submitted.append(function)
        made = Request(b"", None)
        if state != "waiting":
            made.finish(state)
        return made

    return submit


def repeat(times: int = 6) -> list[np.ndarray[Any, Any]]:
    """Run a program `times` times, and return the results."""
    x = wf.asarray(np.arange(1.0, 400.0))
    return [np.asarray(wf.evaluate((x * 2 - 7) / (x + 5) - x)) for _ in range(times)]


@pytest.fixture
def due_after_one_run(tmp_path: Path) -> Any:
    """Make weft compile a graph after one interpreted run, for the duration of a test. Usually, weft compiles a graph only after many runs."""
    wf.reset_statistics()
    for known in (tiers._forms, tiers._programs, execute._plans, plan_cache._known, plan_cache._absent):
        known.clear()
    settings = override(interpret="auto", plans=True, background=True, cache_dir=str(tmp_path))
    rate = mock.patch.multiple(tiers._Rate, start=0.0, second=0.0)
    with settings, rate, mock.patch.multiple(tiers, LOST=1e-9, BACKGROUND=1e-12):
        yield


@pytest.mark.parametrize("state", ["failed", "lost", "done"])
def test_what_the_second_process_cannot_compile_is_compiled_here(state: str, due_after_one_run: Any) -> None:
    submitted: list[str] = []
    with mock.patch.object(runtime, "submit", request(state, submitted)):
        results = repeat()
    assert len(submitted) == 1 and wf.statistics()["plans"] == 1
    assert all(same_bits(r, results[0]) for r in results)


def test_a_form_that_crashes_the_second_process_is_never_compiled_here(due_after_one_run: Any) -> None:
    submitted: list[str] = []
    with mock.patch.object(runtime, "submit", request("crashed", submitted)), override(strict=False):
        with pytest.warns(wf.OptimizerWarning, match="ended unexpectedly"):
            results = repeat()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results += repeat()
    assert len(submitted) == 1 and not wf.statistics()["plans"]
    assert all(same_bits(r, results[0]) for r in results)


def test_a_form_that_crashes_the_second_process_raises_if_strict(due_after_one_run: Any) -> None:
    with mock.patch.object(runtime, "submit", request("crashed", [])), override(strict=True):
        with pytest.raises(wf.CompileError, match="ended unexpectedly"):
            repeat()


def test_the_second_process_is_waited_for_no_longer_than_compilation_would_take(due_after_one_run: Any) -> None:
    submitted: list[str] = []
    with mock.patch.object(runtime, "submit", request("waiting", submitted)):
        results = repeat()
        assert len(submitted) == 1 and not wf.statistics()["plans"]
        (form,) = [form for form in tiers._forms.values() if form.request is not None]
        form.lost = form.patience
        results += repeat()
    assert len(submitted) == 1 and wf.statistics()["plans"] == 1
    assert all(same_bits(r, results[0]) for r in results)


def test_a_form_is_compiled_here_if_there_is_no_second_process(due_after_one_run: Any) -> None:
    with mock.patch.object(runtime, "submit", partial(lambda *a, **k: None)):
        results = repeat(400)
    assert all(same_bits(r, results[0]) for r in results)


def test_compile_plan_refuses_another_version(due_after_one_run: Any) -> None:
    x = wf.asarray(np.arange(300.0))
    graph, form = graph_of(x * 3 - 1)
    with pytest.raises(LookupError, match="another version"):
        planning.compile_plan("cpu", 1, None, b"another", *background._flatten(form.nodes, graph))
