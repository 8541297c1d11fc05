"""Tests of launches with arrays that share memory."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.runtime import override


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Box:
    array: Any
    factor: float


@wf.kernel
def write_second(a: Any, b: Any) -> None:
    if cuda.grid(1) == 0:
        b[0] = 3.0
        b[1] = a[0] + 1.0


@wf.kernel
def write_in_tuple(a: Any, pair: Any, box: Any) -> None:
    if cuda.grid(1) == 0:
        pair.second[0] = 3.0
        box.array[1] = a[0] + pair[0][0] * box.factor


@wf.kernel
def increment(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1.0


@pytest.fixture(params=[False, True], ids=["compiled", "in Python"])
def _mode(request: pytest.FixtureRequest) -> Any:
    with override(kernel_python=request.param):
        yield


@pytest.mark.parametrize("exported", [False, True])
@pytest.mark.usefixtures("_mode")
def test_arrays_that_are_passed_twice_share_memory(exported: bool) -> None:
    x = wf.evaluate(wf.zeros(50_000))
    shown = np.asarray(x) if exported else None
    for second in (x, x[:9], x):
        x[...] = 0.0
        for _ in range(3):
            write_second[1, 1](x, second)
        assert np.array(x[:3]).tolist() == [3.0, 4.0, 0.0]
    x[...] = 0.0
    before = x + 1.0
    write_in_tuple[1, 1](x, Pair(x, x[:5]), Box(x, 2.0))
    assert np.array(x[:3]).tolist() == [3.0, 9.0, 0.0] and float(before[0]) == 1.0
    if shown is not None and x.device.name == "cpu":
        assert shown[:3].tolist() == [3.0, 9.0, 0.0]


@pytest.mark.usefixtures("_mode")
def test_repeated_launches_write_to_exported_memory() -> None:
    x = wf.evaluate(wf.zeros(50_000))
    shown = np.asarray(x)
    for k in range(4):
        increment[1, 64](x)
        assert x[5] == k + 1.0
    if x.device.name == "cpu":
        assert shown[5] == 4.0


@pytest.mark.usefixtures("_mode")
def test_host_arrays_in_tuples_are_copied_once(recwarn: pytest.WarningsRecorder) -> None:
    x, y = np.zeros(4), np.ones(4)
    write_in_tuple[1, 1](y, Pair(y, x), Box(x, 2.0))
    assert x.tolist() == [3.0, 3.0, 0.0, 0.0] and y.tolist() == [1.0] * 4


@pytest.mark.usefixtures("_mode")
def test_records_and_matrices_in_either_order() -> None:
    rows = cuda.to_device(np.zeros((3, 4)))
    write_second[1, 1](rows[0], rows[:, 0])
    assert rows.copy_to_host()[:2, 0].tolist() == [3.0, 4.0]
    turned = wf.evaluate(wf.zeros((40, 50))).T
    write_second[1, 1](turned[0], turned[::-1][-1])
    assert np.array(turned[0, :2]).tolist() == [3.0, 4.0]


@pytest.mark.parametrize("size", [6, 50_000])
@pytest.mark.usefixtures("_mode")
def test_writes_to_a_part_change_the_complex_array(size: int) -> None:
    z = wf.evaluate(wf.asarray(np.arange(size) * (1 + 1j)))
    increment[-(-size // 64), 64](z.real)
    increment[1, 4](z[1:].imag)
    assert np.array(z[:6]).tolist() == [1, 2 + 2j, 3 + 3j, 4 + 4j, 5 + 5j, 6 + 5j]


@wf.kernel
def write_whole(z: Any, real: Any) -> None:
    if cuda.grid(1) == 0:
        z[0] = real[1] + 5.0


@pytest.mark.usefixtures("_mode")
def test_a_part_that_is_only_read_does_not_change_the_complex_array() -> None:
    z = wf.evaluate(wf.asarray(np.arange(50_000) * (1 + 1j)))
    write_whole[1, 1](z, z.real)
    assert np.array(z[:2]).tolist() == [6, 1 + 1j]


@pytest.mark.parametrize("plain", [False, True])
def test_writes_to_an_input_are_lost_and_numbers_in_dataclasses_wrap(plain: bool) -> None:
    @wf.kernel
    def store(x: Any, box: Any) -> None:
        x[0] = 300
        box.array[0] = x[0] * box.factor

    x, out = np.zeros(1, np.int16), np.zeros(1, np.int8)
    with override(kernel_python=plain):
        store[1, 1](cuda.In(x), Box(out, 1))
    assert x[0] == 0 and out[0] == 44


def test_sanitized_launches_on_other_devices_share_memory() -> None:
    @wf.kernel
    def store(a: Any, b: Any) -> None:
        a[0] = 1.0
        b[1] = a[0] + 1.0

    with wf.device("simt"), wf.sanitize():
        x = wf.zeros(3)
        store[1, 1](x, x)
        assert x.numpy().tolist() == [1, 2, 0]
