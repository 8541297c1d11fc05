"""Tests of the memory accesses of PTX kernels on a simulated GPU.

Kernels read each byte once, without bank conflicts and with few instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.stand_in.ptx.driver import PtxStandIn, make_ptx_device
from tests.stand_in.ptx.traffic import SECTOR, Traffic
from weft.codegen import GPU
from weft.fusion.plan import plan_cache, step_blocks, time_steps
from weft.fusion.run import execute
from weft.runtime import override

RNG = np.random.default_rng(2)
WARP = 32
# Thread instructions that an H200 issues per byte moved: 132 multiprocessors x 4 x 32 x 1.98 GHz at 4.3 TB/s.
A_BYTE = 7.8


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., tuple[Traffic, list[np.ndarray]]]]:
    """Yield a function that runs a program, and returns the memory traffic and the results."""
    stand_in = PtxStandIn(1 << 28)
    device = make_ptx_device(stand_in)

    def run(work: Callable[..., Any], *arrays: np.ndarray) -> tuple[Traffic, list[np.ndarray]]:
        found = work(*[wf.asarray(a, device=device) for a in arrays])
        results = list(found) if isinstance(found, tuple) else [found]
        stand_in.traffic = []
        wf.evaluate(*results)
        device.synchronize()
        launches, stand_in.traffic = stand_in.traffic, None
        assert not stand_in.memory.wrong
        total = Traffic()
        for one in launches:
            for name in Traffic.__slots__:
                setattr(total, name, getattr(total, name) + getattr(one, name))
        return total, [np.asarray(r) for r in results]

    with override(cache_dir=str(tmp_path_factory.mktemp("cache"))):
        yield run


def f4(*shape: int) -> np.ndarray:
    return RNG.random(shape, np.float32)


def softmax(x: Any) -> Any:
    x = 0.5 - x * 0.25  # unlike expressions of other tests, for which kernels for any sizes may exist
    e = wf.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


ONCE: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "elements": (lambda a, b: a * b + a, (f4(1 << 14), f4(1 << 14))),
    "float16": (lambda a: a * a, (f4(1 << 14).astype("f2"),)),
    "complex": (lambda a: a * a, (f4(1 << 13).astype("c8"),)),
    "transposed": (lambda a, b: a + b.T, (f4(128, 128), f4(128, 128))),
    "transposed float64": (lambda a, b: a.T + b, (f4(128, 64).astype("f8"), f4(64, 128).astype("f8"))),
    "softmax of rows": (softmax, (f4(64, 512),)),
    "running sums of rows": (lambda a: wf.cumsum(0.5 - a * 0.25, axis=1), (f4(64, 1000),)),
}


@pytest.mark.parametrize("name", ONCE)
def test_each_byte_is_read_and_written_once(name: str, measured: Any) -> None:
    work, arrays = ONCE[name]
    traffic, results = measured(work, *arrays)
    assert traffic.read * SECTOR == sum(a.nbytes for a in arrays)
    assert traffic.written * SECTOR == sum(r.nbytes for r in results)
    assert traffic.passes == traffic.requests


def test_running_sums_of_other_lengths_are_written_in_whole_vectors(measured: Any) -> None:
    def work(a: Any) -> Any:
        return wf.cumsum(0.5 - a * 0.125, axis=1)

    measured(work, f4(8, 1000))
    x = f4(8, 1200)  # reuses the kernel, which supports all lengths that are whole vectors
    traffic, (found,) = measured(work, x)
    np.testing.assert_allclose(found, np.cumsum(0.5 - x * 0.125, axis=1), rtol=1e-4)
    assert traffic.written * SECTOR == x.nbytes


@pytest.mark.parametrize("axis", [0, 1, None])
def test_folds_read_each_byte_once(axis: int | None, measured: Any) -> None:
    x = f4(512, 256)
    traffic, _ = measured(lambda a: a.sum(axis=axis), x)
    assert x.nbytes <= traffic.read * SECTOR <= 1.02 * x.nbytes  # plus partial results
    assert traffic.passes == traffic.requests
    assert traffic.instructions * WARP < x.nbytes * A_BYTE


@pytest.mark.parametrize("length", [5, 8, 24, 48, 60])
def test_short_rows_are_folded_at_the_speed_of_memory(length: int, measured: Any) -> None:
    x = f4(16_384 // length, length)
    traffic, _ = measured(lambda a: a.sum(axis=1), x)
    assert traffic.instructions * WARP < x.nbytes * A_BYTE


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_coordinates_of_points_are_folded_by_one_thread(length: int, measured: Any) -> None:
    a, b = f4(128, length), f4(96, length)
    traffic, (found,) = measured(lambda a, b: wf.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)), a, b)
    assert traffic.instructions * WARP < 100 * found.size
    assert np.array_equal(found, np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)))


def test_a_few_blocks_are_started_for_many_short_rows(measured: Any) -> None:
    x = f4(8192, 6)
    few, _ = measured(lambda a: a.sum(axis=1), x[:4096])
    many, _ = measured(lambda a: a.sum(axis=1), x)
    assert 1.5 < many.instructions / few.instructions < 2.5


def test_time_steps_together_read_and_write_once(measured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def jacobi(u: Any) -> Any:
        u = u.copy()
        wf.evaluate(u)
        for _ in range(4):
            u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return u

    x = f4(128, 480)
    single, (wanted,) = measured(jacobi, x)
    monkeypatch.setitem(vars(GPU), "steps_bytes", 0)
    monkeypatch.setattr(step_blocks, "MANY_PARTS", 4)
    monkeypatch.setattr(step_blocks, "TILES", {1: ((256,),)})
    monkeypatch.setattr(time_steps, "LEAST_GAIN", -(10**9))
    execute._plans.clear()
    plan_cache._known.clear()
    together, (found,) = measured(jacobi, x)
    assert np.array_equal(found, wanted)
    # four parts of 64 rows and 240 columns read twelve more rows, which fill the ring buffers, and 16 more columns
    assert x.nbytes <= together.written * SECTOR <= 1.01 * x.nbytes
    assert x.nbytes < together.read * SECTOR <= 1.25 * x.nbytes
    assert together.read + together.written < (single.read + single.written) / 3.5
    assert together.passes == together.requests
    # 25 per point and step, plus halos and iterations that fill the ring buffers
    assert together.instructions * WARP < 4 * x.size * 35
