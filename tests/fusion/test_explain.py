"""Tests of explanations of plans as text, table and picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import weft as wf
import weft.codegen as codegen
from tests.fusion.plan.test_plan_store import forget
from weft.fusion.explain.explanation import explain_schedule, schedules_of, show_bytes, show_count, show_seconds
from weft.fusion.explain.speed import arithmetic_rate
from weft.fusion.plan.steps import HostCall
from weft.fusion.run import execute
from weft.runtime import copy_bandwidth, find_tool, get_device, override


def program() -> wf.Array:
    x = wf.asarray(np.ones((50, 40), np.float32))
    top = x.max(axis=1, keepdims=True)
    return (x - top) @ wf.ones(40, dtype=np.float32)


def test_bytes_are_held_against_the_least_possible() -> None:
    found = wf.explain(wf.asarray(np.ones(1000)) * 2 + 1)
    assert found.least == 16000
    assert "(1.00 times the least possible)" in found.summary
    (kernel,) = found.kernels
    assert kernel.reads == ("x0",)
    assert kernel.writes == ("y0",)
    assert kernel.instructions == 2
    assert kernel.seconds is not None
    assert "the speed of a copy" in str(found)


def test_picture_is_svg_with_a_box_a_kernel() -> None:
    found = wf.explain(program())
    root = ElementTree.fromstring(found.svg())
    texts = [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text")]
    for number, _ in enumerate(found.kernels, 1):
        assert any(text.startswith(f"[{number}]") for text in texts)
    assert "x0" in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}line"))) >= len(found.kernels)


def test_notebooks_show_a_table_and_the_picture() -> None:
    html = wf.explain(program())._repr_html_()
    assert html.count("<tr>") >= 2
    assert "<svg" in html
    assert wf.explain(wf.evaluate(program()))._repr_html_() == "<p>nothing to run: every value is already in memory</p>"


def test_names_of_the_program_are_escaped() -> None:
    function = wf.vectorize(lambda v: v + 1)
    function.__name__ = "<b>"
    assert "<b>" not in wf.explain(function(wf.ones(3)))._repr_html_()


def test_bandwidth_is_measured_once() -> None:
    device = get_device("cpu")
    kept = device.memory.kept
    first = copy_bandwidth(device)
    assert first is not None
    assert first > 1e8
    assert copy_bandwidth(device) == first
    assert device.memory.kept < kept + (1 << 26)  # the memory of the measurement was released
    assert copy_bandwidth(get_device("null")) is None


@pytest.mark.cpu
def test_library_calls_are_said_to_be_calls() -> None:
    x, w = wf.asarray(np.ones((60, 50), np.float32)), wf.asarray(np.ones((50, 40), np.float32))
    found = wf.explain(wf.maximum(x @ w, 0))
    call, kernel = found.kernels
    assert found.summary.startswith("1 kernel and 1 library call")
    assert "(1.00 times the least possible)" in found.summary
    assert call.seconds is None
    assert "120 k multiply-adds by NumPy" in call.costs
    assert kernel.boundary == "it needs the result of a library call"
    assert kernel.formulas == ("y0 = maximum(t0, 0.0)   (in the memory of t0)",)
    assert wf.explain(x.T @ x).kernels[0].formulas == ("y0 = matmul(x0[view], x0)",)


def test_kernels_show_the_random_numbers_that_they_draw() -> None:
    rng = wf.random.default_rng(7)
    x, y = rng.random(40_000), rng.uniform(0, 2, 40_000)
    (kernel,) = wf.explain((x * x + y <= 1).sum()).kernels
    assert kernel.reads == ("x0", "x1") and kernel.bytes_written == 8 and kernel.bytes_read < 4000
    assert kernel.formulas[:2] == ("t0 = random(x0)", "t1 = uniform(x1)")
    assert [operation.split()[0] for operation in kernel.operations[:3]] == ["random", "uniform", "multiply"]
    assert kernel.boundary == "nothing before it shares its loops"
    assert "t0, t1 drawn in the cache, block by block" in kernel.storage and kernel.seconds is None
    assert wf.explain(x * 2).least == 160 + 8 * 40_000


@pytest.mark.parametrize(
    "program", [wf.diff, wf.sort, lambda x: x[::-1] * 2, lambda x: x + 0, lambda x: (x <= x.max() / 2).sum()]
)
def test_explained_draws_are_those_of_the_plan(
    program: Callable[[wf.Array], wf.Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = program(wf.random.default_rng(7).random(800_000))
    notes = wf.explain(found).kernels
    forget(monkeypatch)
    with override(interpret="never"):
        wf.evaluate(found)
    (plan,) = execute._plans.values()
    drawing = [step for step in plan.steps if getattr(step, "streams", ())]
    calls = [step.node.op for step in plan.steps if isinstance(step, HostCall)]
    assert len(drawing) == sum(bool(note.draws) for note in notes)
    assert calls == [note.title.removeprefix("call ") for note in notes if note.call]
    assert ("random" in calls) != bool(drawing)


def test_calls_on_a_gpu_say_where_they_go() -> None:
    x = wf.asarray(np.ones((60, 50), np.float32))
    product, diagonal = x @ x.T, wf.einsum("iij,jk->k", wf.ones((50, 50, 50)), wf.ones((50, 60)))
    gpu = SimpleNamespace(name="cuda:0")
    told = [explain_schedule(s, gpu) for a in (product, diagonal) for s in schedules_of([a._storage])]  # type: ignore[arg-type]
    texts = [note.costs for notes in told for note in notes if note.call]
    assert "by cuBLAS" in texts[0]
    assert "the operands are copied to the host, and the result is copied back" in texts[1]


@pytest.mark.parametrize(
    ("value", "formula"),
    [
        (lambda x: (x + 1) * (x - 1), "(x0 + 1.0) * (x0 - 1.0)"),
        (lambda x: wf.exp(x).sum(), "reduce_add(exp(x0))"),
        (lambda x: -(x + 1), "negative((x0 + 1.0))"),
        (lambda x: x + 1, "x0 + 1.0"),
    ],
)
def test_formulas_keep_their_parentheses(value: Callable[[wf.Array], wf.Array], formula: str) -> None:
    (kernel,) = wf.explain(value(wf.asarray(np.ones(5)))).kernels
    assert kernel.formulas[0] == f"y0 = {formula}"


def both_ways(x: wf.Array) -> wf.Array:
    e = wf.exp(x) + 1
    return e * e + wf.sqrt(e)


def rolled(x: wf.Array) -> wf.Array:
    y = x.copy()
    y[1:-1, 1:-1] = x[1:-1, :-2] + x[:-2, 1:-1]
    return y


@pytest.mark.parametrize(
    ("value", "formulas"),
    [
        (lambda x: x + x.T, ("y0 = x0[i, j] + x0[j, i]",)),
        (lambda x: x + x[3], ("y0 = x0[i, j] + x0[3, j]",)),
        (lambda x: x[::-1, ::2] * x[0, 1::2], ("y0 = x0[19-i, 2*j] * x0[0, 2*j+1]",)),
        (lambda x: x - x.mean(axis=1)[:, None], ("t0 = reduce_add(x0)", "y0 = x0 - (t0[i] / 20.0)")),
        (
            lambda x: ((x[:, None, :3] - x[None, :, :3]) ** 2).sum(-1),
            ("y0 = reduce_add(square((x0[i, k] - x0[j, k])))",),
        ),
        (lambda x: x.ravel()[7:300] + 1, ("y0 = x0.flat[i+7] + 1.0",)),
        (lambda x: x + wf.asarray(np.array(2.5)), ("y0 = x0 + x1",)),
        (lambda x: wf.roll(x, 1, 0) * 2, ("y0 = (x0[i-1, j] if (i >= 1) else x0[19, j]) * 2.0",)),
        (both_ways, ("v0 = exp(x0) + 1.0", "y0 = (v0 * v0) + sqrt(v0)")),
        (
            rolled,
            (
                "y0 = x0 in new memory, [i+1, j] <- where(logical_and((j >= 1), (j <= 18)), "
                "(x0[i+1, j-1] + x0[i, j]), x0[i+1, j])",
            ),
        ),
    ],
)
def test_formulas_say_where_values_are_read(value: Callable[[wf.Array], wf.Array], formulas: tuple[str, ...]) -> None:
    (kernel,) = wf.explain(value(wf.asarray(np.ones((20, 20))))).kernels
    assert kernel.formulas == formulas


@pytest.mark.parametrize("shape", [(2, 5, 0), (2, 0, 5), (5, 0)])
def test_formulas_of_empty_arrays(shape: tuple[int, ...]) -> None:
    x = wf.asarray(np.ones(shape))
    with override(immediate=0):
        for value in (x.sum(axis=-1), x.sum(axis=0), wf.repeat(x, 2, -1) * 2):
            assert str(wf.explain(value))


def test_formulas_are_no_longer_than_the_program() -> None:
    x = wf.asarray(np.ones(5))
    wf.evaluate(x + 1)  # starts a new recording, so that the following operations fit in one plan
    for _ in range(40):
        x = wf.where(x * x < 4, x * x + 1, x)
    (kernel,) = wf.explain(x).kernels
    assert sum(len(line) for line in kernel.formulas) < 2000
    assert any(line.endswith("more") for line in kernel.formulas)


def test_locations_of_values() -> None:
    def softmax(x: wf.Array) -> wf.Array:
        e = wf.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    found = wf.explain(softmax(wf.asarray(np.ones((50, 40), np.float32))))
    (kernel,) = found.kernels
    assert kernel.storage == "x0 read; y0 written; t0, t1 in registers; rows read again from registers or the cache"
    assert kernel.storage in str(found)


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("stage", "target", "sign"),
    [
        ("kernel", "", "kernel fused"),
        ("llvm", "", "define"),
        ("asm", "", ".text"),
        ("kernel", "sm_80", "level=logical"),
        ("threaded", "", "level=threaded"),
        ("asm", "sm_80", ".target sm_80"),
    ],
)
def test_stages_of_a_plan(stage: str, target: str, sign: str) -> None:
    found = wf.explain(program(), stage=stage, target=target)
    assert found.stages
    assert all(sign in text for _, text in found.stages)
    assert found.stages[0][1] in str(found)
    assert "<details>" in found._repr_html_()
    for array in (program(), wf.evaluate(program())):
        with pytest.raises(ValueError, match="no stage 'ast'"):
            wf.explain(array, stage="ast")


def test_each_stage_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel,) = wf.compile(wf.asarray(np.ones(1000)) + 1, target="sm_90")
    runs: list[str] = []
    lower = codegen.lower_stages
    monkeypatch.setattr(codegen, "lower_stages", lambda *given: (runs.append("run"), lower(*given))[1])
    assert ".target sm_90" in kernel.ptx and kernel.asm == kernel.ptx and kernel.llvm_ir and kernel.kernel_ir
    assert runs == ["run"]


def test_machine_code_needs_no_gpu() -> None:
    pytest.importorskip("cuda.bindings.nvjitlink")
    if find_tool("nvdisasm") is None and find_tool("cuobjdump") is None:
        pytest.skip("no disassembler")
    found = wf.explain(wf.asarray(np.ones(1000, np.float32)) * 2, stage="sass")
    ((title, text),) = found.stages
    assert "sm_90" in title
    assert "STG.E.128" in text


@pytest.mark.cpu
def test_arrays_of_two_devices() -> None:
    flags = wf.asarray(np.zeros(200_000, np.uint8))
    with wf.device("simt"):
        other = wf.asarray(np.zeros(200_000, np.uint8))
    one, two = wf.explain(flags.argmax(), other.argmax()).kernels
    assert "NumPy's loop" in one.title and "NumPy" not in two.title
    assert (one.reads, one.writes, two.reads, two.writes) == (("x0",), ("y0",), ("x1",), ("y1",))


def test_numbers_that_round_to_the_next_unit() -> None:
    assert (show_bytes(999), show_bytes(999_949), show_bytes(999_950)) == ("999 B", "999.9 kB", "1.0 MB")
    assert (show_count(999), show_count(999_499), show_count(999_500)) == ("999", "999 k", "1 M")
    assert (show_seconds(0.9994), show_seconds(0.9995), show_seconds(9.996e-5)) == ("999 ms", "1 s", "100 us")


def test_arithmetic_decides_where_there_is_much_of_it() -> None:
    x = wf.asarray(np.ones(1000, np.float32))
    (kernel,) = (replace(k, bandwidth=1e9, rate=1e9) for k in wf.explain(x * 2).kernels)
    assert kernel.seconds == 8e-6
    assert "8 us at the speed of a copy" in kernel.costs
    (kernel,) = (replace(k, bandwidth=1e9, rate=1e8) for k in wf.explain(x * 2).kernels)
    assert kernel.seconds == pytest.approx(1e-5)
    assert "10 us of arithmetic, at 80% of the speed of a copy" in kernel.costs
    (kernel,) = (replace(k, bandwidth=1e9, rate=1e8) for k in wf.explain(x.astype(np.float64) * 2).kernels)
    assert kernel.seconds == pytest.approx(2e-5)


def test_what_two_results_share_counts_once() -> None:
    def two(x: wf.Array) -> tuple[wf.Array, wf.Array]:
        e = x * 2 + 1
        return e * 3, e - 4

    (kernel,) = wf.explain(*two(wf.asarray(np.ones(10)))).kernels
    assert kernel.instructions == 4


def test_operations_on_different_elements_count_separately() -> None:
    x = wf.asarray(np.ones(100))
    (kernel,) = wf.explain(-x[::-1][:50] + -x[::-2]).kernels  # (Python's hashes of the strides -1 and -2 are equal)
    assert kernel.instructions == 3


def test_arithmetic_is_measured_once_and_not_counted() -> None:
    wf.reset_statistics()
    rate = arithmetic_rate(get_device("cpu"))
    assert rate is not None
    assert rate > 1e7
    assert arithmetic_rate(get_device("cpu")) == rate
    assert arithmetic_rate(get_device("null")) is None
    assert wf.statistics()["kernels"] == wf.statistics()["plans"] == 0
