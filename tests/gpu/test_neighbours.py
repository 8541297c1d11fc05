"""Tests of weft beside CuPy and PyTorch on a real GPU (``pytest -m gpu``)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda

pytestmark = pytest.mark.gpu
N = 1 << 20


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("torch without CUDA")
    return found


@wf.kernel
def add_one(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


def test_cupy_arrays_in_kernels_and_back(cupy: Any) -> None:
    for _ in range(10):
        theirs = cupy.arange(N, dtype=cupy.float64) * 2  # computed in CuPy's own stream
        add_one[N // 256, 256](theirs)
        cuda.synchronize()
        assert float(theirs.sum()) == N * (N - 1) + N
        ours = cuda.as_cuda_array(theirs) * 3
        back = cupy.asarray(ours)
        assert float(back.sum()) == 3 * (N * (N - 1) + N)


def test_a_stream_of_cupys(cupy: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        theirs = cupy.zeros(N)
        for _ in range(5):
            add_one[N // 256, 256, stream](theirs)
            theirs *= 2
        assert float(theirs[0]) == 62


def test_torch_tensors(torch: Any) -> None:
    theirs = torch.arange(N, dtype=torch.float32, device="cuda") + 1
    add_one[N // 256, 256, torch.cuda.current_stream()](theirs)
    assert float((theirs - torch.arange(N, device="cuda")).max()) == 2
    ours = cuda.as_cuda_array(theirs)
    total = float((ours * 0 + 1).sum())
    assert total == N
    assert float((torch.as_tensor(ours + 1, device="cuda") - theirs).min()) == 1


def test_the_context_of_others_stays(torch: Any) -> None:
    """Test that weft does not change the current CUDA context of a thread. The threads also use PyTorch."""
    driver = pytest.importorskip("cuda.bindings.driver")
    found: list[tuple[Any, ...]] = []

    def work() -> None:
        contexts, total = [], 0.0
        for theirs in (lambda: torch.ones(1000, device="cuda") * 3, lambda: torch.zeros(1000, device="cuda")):
            contexts.append(int(driver.cuCtxGetCurrent()[1]))  # (at first, the thread has no context)
            ours = wf.asarray(np.ones(1000), device="cuda:0") + 1
            total += float(ours.sum())
            contexts.append(int(driver.cuCtxGetCurrent()[1]))
            total += float(theirs().sum())
        found.append((total, contexts[0] == contexts[1] == 0, contexts[2] == contexts[3] != 0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(7000.0, True, True)] * 4


def test_a_graph_that_torch_captures_meanwhile(torch: Any) -> None:
    x, y = torch.ones(N, device="cuda"), wf.asarray(np.ones(1000))
    (x + 1).sum()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    wf.evaluate(y + 1)
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        z = x + 1
    for _ in range(5):
        graph.replay()
        wf.evaluate(y + 1)
    torch.cuda.synchronize()
    assert float(z.sum()) == 2 * N
