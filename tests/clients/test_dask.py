"""Tests of dask arrays whose chunks are weft arrays.

They run in one process, and on a cluster of two workers. Opt-in: ``pytest -m clients``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf

pytestmark = pytest.mark.clients
pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

import dask  # noqa: E402 - after the skips
import dask.array as da  # noqa: E402
from dask.array.chunk_types import is_valid_chunk_type  # noqa: E402
from dask.sizeof import sizeof  # noqa: E402

import weft.dask as weft_dask  # noqa: E402

NUMBERS = np.arange(1_000.0).reshape(20, 50)
MEMORY = 1 << 30  # of a worker
LENGTH = 3 * MEMORY // 8  # number of elements of an array that has three times as many bytes


@pytest.fixture
def chunks() -> Iterator[Any]:
    """Yield a dask array with weft chunks. Its computations run in this thread."""
    with dask.config.set(scheduler="synchronous"):
        yield weft_dask.chunked(wf.asarray(NUMBERS), (10, 25))


def test_weft_arrays_are_registered() -> None:
    x = wf.asarray(NUMBERS)
    assert is_valid_chunk_type(wf.Array) and sizeof(x) == NUMBERS.nbytes
    assert dask.base.tokenize(x) == dask.base.tokenize(x + 0) != dask.base.tokenize(x + 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda d: d + wf.asarray(NUMBERS),
        lambda d: wf.asarray(NUMBERS) * d,
        lambda d: wf.asarray(NUMBERS[0]) - d,
        lambda d: np.exp(-d / 1_000).sum(axis=0),
        lambda d: d.T @ d,
        lambda d: (d - d.mean(axis=0)) / d.std(axis=0),
        lambda d: d.rechunk((7, 7)).cumsum(axis=1),
        lambda d: d[3:15, ::2][[1, 5]],
        lambda d: d.map_overlap(lambda block: block + np.roll(block, 1, 0), depth=1, boundary="periodic"),
    ],
)
def test_results_are_weft_arrays(chunks: Any, function: Any) -> None:
    found, wanted = function(chunks), function(da.from_array(NUMBERS, (10, 25)))
    assert type(found._meta) is wf.Array
    result = found.compute()
    assert type(result) is wf.Array
    np.testing.assert_allclose(result, np.asarray(wanted.compute()))


@pytest.mark.parametrize(
    "function",
    [
        lambda d, da: da.percentile(d.ravel(), [10, 50]),
        lambda d, da: da.histogram(d, bins=10, range=(0, 1_000))[0],
        lambda d, da: d[d > 500],
        lambda d, da: da.median(d, axis=1),
        lambda d, da: da.linalg.svd(d.rechunk((20, 25)))[1],
        lambda d, da: da.concatenate([d, d.T[:20, :].rechunk((10, 5))], axis=1),
    ],
)
def test_dasks_own_functions(chunks: Any, function: Any) -> None:
    wanted = function(da.from_array(NUMBERS, (10, 25)), da).compute()
    np.testing.assert_allclose(function(chunks, da).compute(), wanted)


def test_the_operations_on_a_chunk_fuse() -> None:
    x = weft_dask.chunked(wf.asarray(np.ones((8, 100_000))), (2, 100_000))
    y = np.sqrt(np.exp(-x) * 2 + x**2) - 0.5
    with dask.config.set(scheduler="synchronous"):
        y.compute()  # (so that the plan is cached)
        with wf.profile() as profile:
            blocks = dask.compute(*y.to_delayed().ravel())
            wf.evaluate(*blocks)
    assert len(profile.kernels) <= 4, profile.kernels


def make(block_info: Any = None) -> Any:
    """Return a chunk of an array of consecutive numbers. `block_info` contains the position of the chunk."""
    (first, last), *_ = block_info[None]["array-location"]
    return wf.arange(first, last, dtype=np.float64)


def resident() -> int:
    """Return the number of bytes of this process that are in physical memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(600)
def test_an_array_larger_than_the_memory_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(Path(weft_dask.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, str(Path(__file__).parents[2])]))
    monkeypatch.setenv("WEFT_DEVICE", "cpu")
    size = 1 << 20
    options: Any = {"processes": True, "threads_per_worker": 1, "memory_limit": MEMORY, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster) as client:
        client.run(__import__, "weft")
        x = da.map_blocks(make, chunks=((size,) * (LENGTH // size),), dtype=np.float64, meta=wf.empty(0))
        assert x.nbytes == 3 * MEMORY
        y = np.sqrt(x + 1) - np.sqrt(x)
        total, greatest, kinds = dask.compute(y.sum(), y.max(), x.blocks[:4].map_blocks(_is_weft, dtype=bool).sum())
        assert kinds == 4
        np.testing.assert_allclose([float(total), float(greatest)], [np.sqrt(x.size), 1])
        assert max(client.run(resident).values()) < MEMORY


def _is_weft(block: Any) -> Any:
    return np.full(1, type(block) is wf.Array)
