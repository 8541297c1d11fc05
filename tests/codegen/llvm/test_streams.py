"""Tests of prefetches and non-temporal stores in kernels that exceed the caches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import weft as wf
from tests.oracle.parse import parse_kernel
from weft.codegen import host_target, lower_stages, resolve_target, streaming_threshold


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the cache size so low that every kernel exceeds it."""
    monkeypatch.setattr(host_target, "_last_cache", lambda: 4)
    with wf.device("cpu"):
        yield


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_every_length_and_alignment(dtype: type) -> None:
    source = np.arange(700).astype(dtype)
    for length in (*range(1, 140), 255, 256, 257, 511, 600):
        for start in (0, 1, 7, 16):
            part = source[start : start + length]
            assert np.array_equal(wf.asarray(source)[start : start + length] + dtype(1), part + dtype(1))


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize("columns", [30, 64, 97, 130])
def test_rows_that_begin_anywhere(columns: int) -> None:
    a = np.random.default_rng(0).random((37, columns + 2)).astype(np.float32)
    b = wf.asarray(a).copy()
    b[1:-1, 1:-1] = wf.asarray(a)[1:-1, 2:] * np.float32(3)
    expected = a.copy()
    expected[1:-1, 1:-1] = a[1:-1, 2:] * np.float32(3)
    assert np.array_equal(b, expected)


@pytest.mark.usefixtures("small_cache")
def test_results_of_several_sizes_at_once() -> None:
    a = np.random.default_rng(1).random(1000).astype(np.float32)
    x = wf.asarray(a)
    results = wf.evaluate(x * 2, x.astype(np.float64) / 3, x > 0.5, (x * 8).astype(np.int16))
    expected = a * 2, a.astype(np.float64) / 3, a > 0.5, (a * 8).astype(np.int16)
    for ours, theirs in zip(results, expected, strict=True):
        assert np.array_equal(ours, theirs)


_KERNEL = """\
kernel fused index=int32 level=logical{streams} (
  %n: int32
  %x: ptr<float32> noalias align=16
  %y: ptr<float32> mut align=16
) {{
  %0: int32 = constant() value=0
  for(%0, %n) role=parallel {{ [%1: int32]
    %2: float32 = load(%x, %1)
    %3: float32 = add(%2, %2)
    store(%y, %1, %3)
    yield()
  }} -> []
}}
"""


def test_what_is_written_past_the_caches_is_waited_for() -> None:
    target = resolve_target("host")
    if not target.triple.startswith("x86_64"):
        pytest.skip("writes past the caches are used on x86-64")
    asm = lower_stages(parse_kernel(_KERNEL.format(streams=" streams=True")), target)["asm"]
    assert "movnt" in asm
    assert "prefetch" in asm
    assert asm.index("sfence") > asm.rindex("movnt")
    plain = lower_stages(parse_kernel(_KERNEL.format(streams="")), target)["asm"]
    assert "movnt" not in plain
    assert "prefetch" not in plain


def test_what_fits_the_caches_is_left_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_target, "_last_cache", lambda: 1 << 20)
    assert streaming_threshold(resolve_target("sm_90")) == 0
    assert streaming_threshold(resolve_target("host")) in (0, 1 << 20)


@pytest.mark.parametrize(("length", "fetched"), [(5, False), (60, True)])
def test_long_bodies_fetch_ahead(length: int, fetched: bool) -> None:
    """Test that, without non-temporal stores, only loops with long bodies prefetch.

    The processor itself looks ahead by less than a long body.
    """
    more = "\n".join(f"    %a{k}: float32 = add(%{f'a{k - 1}' if k else 2}, %2)" for k in range(length))
    text = (
        _KERNEL.format(streams="")
        .replace("    %3: float32 = add(%2, %2)", more)
        .replace("%1, %3)", f"%1, %a{length - 1})")
    )
    stages = lower_stages(parse_kernel(text), resolve_target("host"))
    assert ("llvm.prefetch" in stages["llvm"]) == fetched
