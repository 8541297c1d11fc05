"""How many kernels a GPU compiles for one expression over sizes of all magnitudes: counted, not compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import print_kernel, resolve_target
from weft.fusion import kernels as home
from weft.fusion import resized
from weft.fusion.explain import schedules_of

TARGET = resolve_target("sm_90")
MOST = 1 << 22
LEAST = 5  # folds over fewer elements are written out
SIZES = 40


class Gpu:
    """As much of a device as choosing kernels needs."""

    name = "cuda:0"
    target = TARGET


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The kernels that would have been compiled."""
    found: list[str] = []
    obtained, loaded = home.obtain_function, home.is_loaded

    def obtain(device: Any, kernel: Any) -> Any:
        if device is not Gpu:
            return obtained(device, kernel)
        text = print_kernel(kernel)
        if text not in found:
            found.append(text)
        return None

    def is_loaded(device: Any, kernel: Any) -> bool:
        return print_kernel(kernel) in found if device is Gpu else loaded(device, kernel)

    with monkeypatch.context() as patch:
        patch.setattr(home, "obtain_function", obtain)
        patch.setattr(home, "is_loaded", is_loaded)
        patch.setattr(home, "_met", set())
        yield found


@pytest.fixture(scope="module")
def memory() -> Iterator[tuple[wf.Array, wf.Array]]:
    with wf.device("cpu"):
        yield wf.asarray(np.zeros(MOST, np.float32)), wf.asarray(np.zeros(MOST, np.float32))
        wf.evaluate(wf.zeros(1))


def shapes(name: str, axes: int) -> Iterator[tuple[int, ...]]:
    """Shapes of all magnitudes, as many small as large ones."""
    source = Random(name)
    for _ in range(SIZES):
        size = int(LEAST**axes * (MOST / LEAST**axes) ** source.random())
        first = int(LEAST * (size / LEAST**axes) ** source.random()) if axes > 1 else 1
        yield (first, max(LEAST, size // first))[2 - axes :]


def softmax(x: wf.Array) -> wf.Array:
    e = wf.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def centred(x: wf.Array) -> wf.Array:
    d = x - x.mean(axis=1, keepdims=True)
    return d / wf.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)


# Name -> axes, expression, kernels at most.
PROGRAMS: dict[str, tuple[int, Callable[[wf.Array, wf.Array], Any], int]] = {
    "chain": (1, lambda x, y: x * 2.5 + y, 4),
    "sum": (1, lambda x, y: (x * 2.5 + 1).sum(), 4),
    "variance": (1, lambda x, y: x.var(), 5),
    "position": (1, lambda x, y: x.argmax(), 4),
    "sums of rows": (2, lambda x, y: (x * 2.5 + 1).sum(axis=1), 4),
    "largest of rows": (2, lambda x, y: x.max(axis=1), 4),
    "softmax": (2, lambda x, y: softmax(x), 8),
    "layer norm": (2, lambda x, y: centred(x), 7),
    "broadcast": (2, lambda x, y: x * 2 + y[0], 4),
    "stencil": (2, lambda x, y: x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1], 4),
    "sums of columns": (2, lambda x, y: (x * 2.5 + 1).sum(axis=0), 4),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_of_all_magnitudes_share_few_kernels(
    name: str, compiled: list[str], memory: tuple[wf.Array, wf.Array]
) -> None:
    axes, program, most = PROGRAMS[name]
    large: dict[Any, bool] = {}
    for shape in shapes(name, axes):
        x, y = (a[: int(np.prod(shape))].reshape(shape) for a in memory)
        result = program(x, y)
        epoch = result._storage.epoch
        form = resized.find_form("a GPU", [result._storage.expr], None, epoch.results).key
        may = home.Special() if form not in large else home.Special(first=False, large=not large[form])
        for schedule in schedules_of([result._storage], TARGET):
            for group in schedule.groups:
                home.obtain_kernels(Gpu, group, may)  # type: ignore[arg-type]
        large[form] = large.get(form, False) or may.taken
        del result, x, y
        wf.evaluate(wf.zeros(1))  # what was only recorded goes
    assert len(compiled) <= most
    assert len(compiled) >= 2
