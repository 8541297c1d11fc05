"""Tests that the real and imaginary parts of a complex array are views."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


def test_the_base_of_a_part_is_its_array() -> None:
    x = wf.array([[1 + 2j, 3], [4, 5j]])
    assert x.real.base is x and x.imag.base is x
    part = x.real
    x += 1 + 1j
    assert part.tolist() == [[2, 4], [5, 1]]
    part -= 1
    np.testing.assert_array_equal(x.numpy(), [[1 + 3j, 3 + 1j], [4 + 1j, 6j]])


@pytest.mark.parametrize("size", [5, 50_000])
def test_a_part_shares_its_memory_with_numpy(size: int) -> None:
    expected = np.arange(size) * (1 + 2j)
    x = wf.array(expected) * 1
    if x._storage.device.name != "cpu":
        pytest.skip("other devices share no memory with NumPy")
    part, values = x.real, np.asarray(x.real)
    assert values.strides == (16,) and values.flags.writeable
    values[1], expected.real[1] = 7, 7
    np.testing.assert_array_equal(part, expected.real)
    np.testing.assert_array_equal(x, expected)
    part[2:4], expected.real[2:4] = 9, 9
    part[:2], expected.real[:2] = [4, 5], [4, 5]
    for ufunc, own in ((np.add, expected.real), (wf.add, part)):
        ufunc.at(own, [0, 0], 3.0)
    x *= 2
    expected *= 2
    np.testing.assert_array_equal(values, expected.real)
    del x
    values[3], expected.real[3] = -1, -1
    np.testing.assert_array_equal(part + 0, expected.real)
    np.testing.assert_array_equal(part[::2], expected.real[::2])
    memoryview(part)[4] = 3.5
    assert part[4] == values[4] == 3.5


@pytest.mark.parametrize("size", [5, 50_000])
def test_the_address_of_a_part_is_in_its_array(size: int) -> None:
    x = wf.arange(float(size)) * (1 + 2j)
    if x._storage.device.name != "cpu":
        pytest.skip("other devices share no memory with NumPy")
    start = x.ctypes.data
    assert x.imag.ctypes.data == start + 8
    assert x.imag.__array_interface__["data"][0] == start + 8
    bits = x.imag.view(np.int64)
    assert bits.tolist() == np.asarray(x).imag.view(np.int64).tolist()
    x += 1j
    assert bits.tolist() == np.asarray(x).imag.view(np.int64).tolist()


@pytest.mark.parametrize("size", [5, 50_000])
def test_a_read_only_part_follows_its_array(size: int) -> None:
    expected = np.arange(size) * (1 + 2j)
    x = wf.array(expected) * 1
    part = x.real
    part.flags.writeable = False
    for view in (
        part,
        part[1:],
        part.reshape(1, -1),
        wf.broadcast_to(x.imag, (2, size)),
        wf.broadcast_to(part, (2, size)),
    ):
        assert not view.flags.writeable and not np.asarray(view).flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1
    stretched, later = wf.broadcast_to(x.imag[1:], (2, size - 1)), part[1:]
    x[1], expected[1] = 8 - 9j, 8 - 9j
    assert stretched[1, 0] == -9 and later[0] == part[1] == 8
    np.testing.assert_array_equal(part + stretched[0, 0], expected.real - 9)
    assert part[[0, 1]].flags.writeable and part.copy().flags.writeable
    part.setflags(write=True)
    x.flags.writeable = False
    part[0], expected[0] = 3, 3
    np.testing.assert_array_equal(x, expected)
    assert not x.real.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        x.imag += 1
    with pytest.raises(ValueError, match="resize only works on single-segment arrays"):
        part.resize(2)


@pytest.mark.parametrize("size", [5, 50_000])
def test_the_imaginary_part_of_a_real_array_is_read_only(size: int) -> None:
    x = wf.ones(size) * 2
    assert not x.imag.flags.writeable and x.imag.dtype == x.dtype and not x.imag.any()
    with pytest.raises(ValueError, match="read-only"):
        x.imag[0] = 1
    assert repr((x * wf.ones(50_000)[:size]).sum().imag) == "np.float64(0.0)"
