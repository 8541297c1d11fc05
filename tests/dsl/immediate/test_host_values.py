"""Tests of weft arrays that immediate execution creates. Such an array holds its elements in a NumPy array, and has no `Storage` object yet."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.immediate.native_immediate import install_native_code
from weft.dsl.script.numpy_face import NUMPY

IMMEDIATE = 1 << 14  # for these tests
OPERATIONS: list[Callable[[Any, Any, Any], Any]] = [
    lambda xp, x, y: x.T,
    lambda xp, x, y: x.T * 2,
    lambda xp, x, y: x + y,
    lambda xp, x, y: x[::-1],
    lambda xp, x, y: x[..., 0],
    lambda xp, x, y: x[1:].T,
    lambda xp, x, y: x > y,
    lambda xp, x, y: xp.where(x > 1, x, y),
    lambda xp, x, y: x.copy(),
    lambda xp, x, y: x.copy("K"),
    lambda xp, x, y: x.reshape(-1),
    lambda xp, x, y: xp.sqrt(x.T.astype(np.float64)),
    lambda xp, x, y: xp.concatenate([x, x]),
    lambda xp, x, y: x.sum(axis=0),
    lambda xp, x, y: x.swapaxes(0, -1) + x.swapaxes(0, -1),
    lambda xp, x, y: x.astype(np.float32),
    lambda xp, x, y: pickle.loads(pickle.dumps(x)),
    lambda xp, x, y: copy.deepcopy(x),
]


@pytest.fixture(params=[False, True], ids=["python", "native"], autouse=True)
def _in_native_code(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param:
        install_native_code()
    yield


def _write_first(x: Any) -> None:
    if x.size and x.ndim:
        x[0] = 1


def _add_in_place(x: Any) -> None:
    x += x.dtype.type(1)


def _write_through_an_export(x: Any) -> None:
    values = np.asarray(x)
    if values.size and values.ndim:
        values[..., -1] = 3


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.float32])
def test_arrays_share_memory_and_keep_their_order_as_in_numpy(seed: int, dtype: type) -> None:
    """Compare values and strides with NumPy's after random operations, writes and exports."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 5, rng.choice([1, 2, 3, 5], rng.integers(1, 4))).astype(dtype)
    pairs: list[tuple[Any, Any]] = [(values, wf.asarray(values.copy()))]
    for _ in range(12):
        (x, own_x), (y, own_y) = (pairs[rng.integers(len(pairs))] for _ in range(2))
        if rng.random() < 0.3:
            write = [_write_first, _add_in_place, _write_through_an_export][rng.integers(3)]
            if x.dtype != bool:
                write(x), write(own_x)
        else:
            operation = OPERATIONS[rng.integers(len(OPERATIONS))]
            try:
                found = operation(np, x, y)
            except (ValueError, IndexError) as error:
                with pytest.raises(type(error)):
                    wf.evaluate(operation(NUMPY, own_x, own_y))
                continue
            own = operation(wf, own_x, own_y)
            if isinstance(found, np.ndarray) and isinstance(own, wf.Array):
                pairs.append((found, own))
        for expected, array in pairs:
            result = np.asarray(array)
            assert result.dtype == expected.dtype and np.array_equal(result, expected)
            assert 1 in expected.shape or not expected.size or array.strides == expected.strides


def test_exported_results_in_fortran_order_stay_shared() -> None:
    x = wf.asarray(np.arange(6.0).reshape(2, 3)).T * 2
    exported, buffer = np.asarray(x), memoryview(x)
    part = x[1:]  # (the array now has a storage)
    assert x.flags.f_contiguous and exported.strides == x.strides == (8, 24)
    exported[0, 0], np.asarray(x)[2, 1] = 7, 5
    x += 1
    assert float(x[0, 0]) == exported[0, 0] == 8 and part[1, 1] == exported[2, 1] == 6
    assert np.array_equal(np.asarray(buffer), np.asarray(x)) and np.from_dlpack(x).strides == (8, 24)
