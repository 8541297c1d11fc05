"""Tests that an expensive value is computed only once if several loops over a row need it.

The value is stored for the other loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.codegen.kernels import HOST
from tests.oracle.interpret import interpret_kernel
from tests.oracle.parse import parse_kernel
from weft.codegen import Kernel, Pointer, host_target, verify_kernel
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.describe_shapes import describe_shapes
from weft.codegen.passes.keep_rows import ROOM, describe_rows, keep_rows
from weft.fusion.plan import plan_cache
from weft.fusion.run import execute

TEXT = """\
kernel rows index=int32 level=logical (
  %rows: int32
  %columns: int32
  %x: ptr<float32> {written}align=4
  %y: ptr<float32> mut align=4
) {{
  %0: int32 = constant() value=0
  for(%0, %rows) role=parallel {{ [%1: int32]
    %2: float32 = constant() value=0.0
    %3: int32 = multiply(%1, %columns)
    for(%0, %columns, %2) combine=(maximum) role=reduce {{ [%4: int32, %5: float32]
      %6: int32 = add(%3, %4)
      %7: float32 = load(%x, %6)
      %8: float32 = maximum(%5, %7)
      yield(%8)
    }} -> [%9: float32]
    for(%0, %columns, %2) combine=(add) role=reduce {{ [%10: int32, %11: float32]
      %12: int32 = add(%3, %10)
      %13: float32 = load(%x, %12)
      %14: float32 = {op}(%13)
      %15: float32 = add(%11, %14)
      yield(%15)
    }} -> [%16: float32]
    %17: int32 = multiply(%1, %columns)
    for(%0, %columns) role=reduce {{ [%18: int32]
      %19: int32 = add(%17, %18)
      %20: float32 = load(%x, %19)
      %21: float32 = {op}(%20)
      %22: float32 = divide(%21, %16)
      %23: float32 = add(%22, %9)
      store(%y, %19, %23)
      yield()
    }} -> []
    yield()
  }} -> []
}}
"""


def kernel(op: str = "exp", *, written: bool = False, columns: int = 40) -> Kernel:
    """Return a kernel like a softmax of rows, after the tested passes."""
    text = TEXT.format(op=op, written="mut " if written else "noalias ")
    found = describe_shapes(parse_kernel(text), {"rows": 3, "columns": columns}, HOST)
    found = keep_rows(choose_lanes(found, HOST))
    verify_kernel(found)
    return found


def count(kernel: Kernel, opcode: str) -> int:
    return sum(o.opcode == opcode for o in kernel.walk())


def test_what_is_expensive_is_computed_once() -> None:
    found = kernel()
    assert count(found, "exp") == 1
    assert count(found, "local") == 1
    x = np.random.default_rng(0).random((3, 40)).astype(np.float32)
    out, plain = np.zeros_like(x), np.zeros_like(x)
    interpret_kernel(found, [3, 40, x.reshape(-1), out.reshape(-1)])
    interpret_kernel(parse_kernel(TEXT.format(op="exp", written="noalias ")), [3, 40, x.reshape(-1), plain.reshape(-1)])
    assert np.array_equal(out, plain)
    assert np.allclose(out, np.exp(x) / np.exp(x).sum(1, keepdims=True) + x.max(1, keepdims=True))


@pytest.mark.parametrize(
    "given", [{"op": "negative"}, {"written": True}, {"columns": ROOM // 4 + 1}], ids=["cheap", "written", "long"]
)
def test_what_is_computed_again(given: dict[str, Any]) -> None:
    found = kernel(**given)
    assert count(found, "local") == 0
    assert count(found, given.get("op", "exp")) == 2


NESTED = """\
kernel nested index=int32 level=logical (
  %n: int32
  %x: ptr<float32> noalias align=4
  %y: ptr<float32> mut align=4
) {
  %0: int32 = constant() value=0
  %1: float32 = constant() value=0.0
  for(%0, %n, %1) combine=(maximum) role=reduce { [%2: int32, %3: float32]
    for(%0, %n, %1) combine=(add) role=reduce { [%4: int32, %5: float32]
      %6: float32 = load(%x, %4)
      %7: float32 = exp(%6)
      %8: float32 = add(%5, %7)
      yield(%8)
    } -> [%9: float32]
    for(%0, %n, %1) combine=(add) role=reduce { [%10: int32, %11: float32]
      %12: float32 = load(%x, %2)
      %13: float32 = exp(%12)
      %14: float32 = load(%x, %10)
      %15: float32 = multiply(%13, %14)
      %16: float32 = add(%11, %15)
      yield(%16)
    } -> [%17: float32]
    %18: float32 = add(%9, %17)
    store(%y, %2, %18)
    %19: float32 = maximum(%3, %18)
    yield(%19)
  } -> [%20: float32]
}
"""


def test_the_element_of_an_outer_loop_is_another_element() -> None:
    found = keep_rows(choose_lanes(describe_shapes(parse_kernel(NESTED), {"n": 40}, HOST), HOST))
    x, out = np.random.default_rng(0).random(40).astype(np.float32), np.zeros(40, np.float32)
    interpret_kernel(found, [40, x, out])
    np.testing.assert_allclose(out, np.exp(x).sum() + np.exp(x) * x.sum(), rtol=1e-5)


def test_there_is_room_for_the_longest_row() -> None:
    (local,) = (o for o in kernel(columns=ROOM // 4).walk() if o.opcode == "local")
    assert isinstance(local.results[0].type, Pointer)
    assert local.attributes["count"] == ROOM // 4


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the cache size so low that every kernel exceeds it."""
    monkeypatch.setattr(host_target, "_last_cache", lambda: 4)
    with wf.device("cpu"):
        yield


def programs(x: wf.Array) -> list[wf.Array]:
    e = wf.exp(x - x.max(axis=-1, keepdims=True))
    t = wf.tanh(x)
    return [
        e / e.sum(axis=-1, keepdims=True),
        t - t.mean(axis=-1, keepdims=True) + (t * t).max(axis=-1, keepdims=True),
        wf.where(x > 0, t, 1 / e) / e.max(axis=-1, keepdims=True),
        e.T / e.T.sum(axis=-1, keepdims=True),
    ]


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize("shape", [(3, 1), (5, 31), (4, 100), (2, ROOM // 4 + 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bits(shape: tuple[int, ...], dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    x = wf.asarray(np.random.default_rng(1).standard_normal(shape).astype(dtype))
    found = []
    for passes in ("kept", "computed again"):
        if passes == "computed again":
            monkeypatch.setattr("weft.codegen.passes.describe_shapes.describe_rows", lambda kernel, _: kernel)
        execute._plans.clear()
        plan_cache._known.clear()
        found.append([np.asarray(y) for y in programs(x)])
    for ours, plain in zip(*found, strict=True):
        assert np.array_equal(ours, plain)


def softmax(x: wf.Array) -> wf.Array:
    e = wf.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.usefixtures("small_cache")
def test_values_are_kept_where_a_result_may_get_the_memory_of_an_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []

    def describe(kernel: Kernel, sizes: Any) -> Kernel:
        found = describe_rows(kernel, sizes)
        kept.append(found.attributes.get("kept"))
        return found

    monkeypatch.setattr("weft.codegen.passes.describe_shapes.describe_rows", describe)
    values = np.random.default_rng(2).standard_normal((5, 77))
    results = []
    for donated in (False, True):
        x = wf.evaluate(wf.asarray(values) * 1.5)
        y = softmax(x)
        before = x._storage.buffer.address
        if donated:
            del x
        wf.evaluate(y)
        assert (y._storage.buffer.address == before) is donated
        results.append(np.asarray(y))
    assert any(kept)
    assert np.array_equal(*results)
    e = np.exp(values * 1.5 - (values * 1.5).max(-1, keepdims=True))
    np.testing.assert_allclose(results[0], e / e.sum(-1, keepdims=True), rtol=1e-13)
