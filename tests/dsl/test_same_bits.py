"""Tests that results have the same bits for any number of threads or blocks.

Fusion does not change the bits either.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from weft.runtime import SimtDevice, get_device, override
from weft.runtime import device as on_device

Values = dict[str, np.ndarray]
PROGRAMS: dict[str, Callable[[wf.Array], tuple[wf.Array, ...]]] = {
    "rows": lambda x: (x.sum(axis=1), x.mean(axis=1), (x * x).sum(axis=1)),
    "columns": lambda x: (x.sum(axis=0), x.max(axis=0)),
    "all": lambda x: (x.sum(), (x * x).mean()),
    "softmax": lambda x: (wf.exp(x - x.max(axis=1, keepdims=True)) / wf.exp(x).sum(axis=1, keepdims=True),),
    "norm": lambda x: ((x - x.mean(axis=1, keepdims=True)) / wf.sqrt(x.var(axis=1, keepdims=True) + 1e-5),),
    "functions": lambda x: (wf.sin(x) + wf.exp(x), wf.log1p(x * x)),
    "running": lambda x: (wf.cumsum(x, axis=1), wf.cumsum(x[:, :7], axis=0)),
    "transposed": lambda x: (x.T + 1, x.T.sum(axis=1)),
}
SHAPES = ((301, 1003), (3, 90001), (70000, 5), (64, 4096))


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (np.random.default_rng(0).random(shape) - 0.3).astype(dtype)


def run(name: str, x: np.ndarray) -> list[np.ndarray]:
    found = PROGRAMS[name](wf.asarray(x))
    wf.evaluate(*found)
    return [np.array(f) for f in found]


def same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_number_of_threads(name: str, dtype: str) -> None:
    with on_device("cpu"):
        for shape in SHAPES:
            x = values(shape, dtype)
            with override(threads=1):
                alone = run(name, x)
            for threads in (2, 3, 5):
                with override(threads=threads):
                    assert same(run(name, x), alone), (shape, threads)


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_number_of_blocks_and_any_order(name: str) -> None:
    for shape in ((61, 203), (3, 9001), (700, 5)):
        x = values(shape, "float32")
        with on_device("simt"):
            first = run(name, x)
            simt = get_device("simt")
            assert isinstance(simt, SimtDevice)
            for blocks in (1, 3):
                before, simt.most_blocks = simt.most_blocks, blocks
                try:
                    assert same(run(name, x), first), (shape, blocks)
                finally:
                    simt.most_blocks = before
        with on_device("simt::backward"):
            assert same(run(name, x), first), shape


SIBLINGS: dict[str, Callable[[wf.Array], wf.Array]] = {
    "argmax": lambda x: x.argmax(axis=1),
    "double": lambda x: x.astype("float64").sum(axis=1),
    "largest": lambda x: x.max(axis=1),
    "scaled": lambda x: x / x.sum(axis=1, keepdims=True),
    "squares": lambda x: (x * x).sum(axis=1),
    "wider": lambda x: (x + wf.asarray(values(x.shape, "float64"))).sum(axis=1),
    "more": lambda x: (x * wf.asarray(values(x.shape, "float32")) - wf.asarray(values(x.shape, "float32") * 2)).sum(
        axis=1
    ),
    "backward": lambda x: (x * x[:, ::-1]).sum(axis=1),
    "across": lambda x: x.sum(axis=0),
    "written": lambda x: x * 2,
}


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("sibling", SIBLINGS)
def test_a_sum_alone_and_beside_others(device: str, sibling: str) -> None:
    with on_device(device):
        for shape in ((70, 100), (70, 4096), (64, 10000), (5, 3000)):
            x = values(shape, "float32")
            alone = np.array(wf.asarray(x).sum(axis=1))
            array = wf.asarray(x)
            total, other = array.sum(axis=1), SIBLINGS[sibling](array)
            wf.evaluate(total, other)
            assert np.array(total).tobytes() == alone.tobytes(), shape


@pytest.mark.parametrize("sibling", ["largest", "wider", "written"])
def test_a_sum_of_every_other_element_alone_and_beside_others(sibling: str) -> None:
    for shape in ((70, 100), (70, 4096), (9, 40001)):
        x = values(shape, "float32")
        alone = np.array(wf.asarray(x)[:, ::2].sum(axis=1))
        array = wf.asarray(x)[:, ::2]
        total, other = array.sum(axis=1), SIBLINGS[sibling](array)
        wf.evaluate(total, other)
        assert np.array(total).tobytes() == alone.tobytes(), shape
