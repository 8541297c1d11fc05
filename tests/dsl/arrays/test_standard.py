"""Tests of attributes and methods of arrays, and of the namespace of the array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.methods import view  # (`weft.cuda` replaces the method by Numba's ``view``, which shares memory)
from weft.runtime import override


def test_the_namespace_says_what_it_can_do() -> None:
    x = wf.ones(3)
    assert x.__array_namespace__() is wf
    assert x.__array_namespace__(api_version="2025.12") is wf
    with pytest.raises(ValueError, match="1999"):
        x.__array_namespace__(api_version="1999.12")
    info = wf.__array_namespace_info__()
    assert info.default_device() is x.device and x.device in info.devices()
    assert info.default_dtypes()["real floating"] == x.dtype
    assert info.dtypes(kind="unsigned integer")["uint8"] == np.uint8
    assert wf.__array_api_version__ == "2025.12"


@pytest.mark.parametrize(
    "make",
    [
        lambda device: wf.zeros(3, device=device),
        lambda device: wf.ones((2, 1), device=device),
        lambda device: wf.empty(3, device=device),
        lambda device: wf.full(3, 7, device=device),
        lambda device: wf.eye(N=3, M=2, device=device),
        lambda device: wf.arange(3, device=device),
        lambda device: wf.arange(start=0.5, stop=3, device=device),
        lambda device: wf.linspace(start=0, stop=1, num=4, device=device),
        lambda device: wf.zeros_like(wf.ones(2), device=device),
        lambda device: wf.asarray([1, 2], device=device),
        lambda device: wf.ones(2).to_device(device),
        lambda device: wf.from_dlpack(np.ones(2), device=device),
    ],
)
def test_new_arrays_go_where_they_are_wanted(make: Any) -> None:
    found = make("simt")
    assert found.device.name == "simt"
    assert wf.ones_like(found).device.name == "simt"  # arrays made like it are on the same device
    assert wf.ones(2).device.name != "simt"


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int64", "uint8", "complex128", "complex64", "bool"])
@pytest.mark.parametrize("other", ["int64", "uint8", "float32", "complex128", "int16"])
def test_bytes_are_read_as_another_dtype(kind: str, other: str) -> None:
    values = np.arange(32).reshape(4, 8).astype(kind)
    for part in (np.s_[:], np.s_[1:3], np.s_[::2], np.s_[:, :4], np.s_[:, ::2], np.s_[0, :5]):
        try:
            wanted = values[part].view(other)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:30]):
                view(wf.asarray(values)[part], other)
            continue
        found = view(wf.asarray(values)[part], other)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_bits_of_what_is_not_evaluated() -> None:
    x = wf.arange(4, dtype=np.float32) + 1
    y = (0x5F3759DF - (x.view(np.int32) >> 1)).view(np.float32)
    wanted = np.arange(4, dtype=np.float32) + 1
    wanted = (0x5F3759DF - (wanted.view(np.int32) >> 1)).view(np.float32)
    np.testing.assert_array_equal(y, wanted)
    assert x.sum().view(np.int32) == np.float32(10).view(np.int32)
    bits = view(x, np.int32)
    x += 1
    if x.device.name == "cpu":
        assert bits[0] == np.float32(2).view(np.int32)
        bits[0] = 3
        assert x[0] == np.int32(3).view(np.float32)
    else:  # the bits are a copy
        assert bits[0] == np.float32(1).view(np.int32)
        with pytest.raises(ValueError, match="read-only"):
            bits[0] = 3
    same = x.view()
    same[0] = -1
    assert x[0] == -1


def test_read_only_arrays() -> None:
    x = wf.arange(6.0)
    view = x[1:]
    x.flags.writeable = False
    assert not x.flags.writeable and not x[2:].flags["WRITEABLE"] and not x.reshape(2, 3).T.flags.writeable
    for write in (
        lambda: x.__setitem__(0, 1),
        lambda: x[2:].__setitem__(slice(None), 1),
        lambda: x.__iadd__(1),
        lambda: x.__setitem__(x > 2, 1),
        lambda: wf.add.at(x, [0], 1),
        lambda: x.fill(3),
        lambda: wf.sin(x, out=x),
        lambda: x.sort(),
        lambda: x.__setitem__([0, 1], 5.0),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    view[0] = 7  # writes through another array object
    assert (x + 1)[1] == 8 and x.copy().flags.writeable
    later, frozen = x[2:], wf.asarray(np.arange(3.0))
    for fixed in (view, later, x.view(), wf.reshape(x, (2, 3))):
        fixed.setflags(write=False)
        with pytest.raises(ValueError, match="cannot set"):
            fixed.flags.writeable = True
    assert not view.base.flags.writeable
    x.setflags(write=True)
    x[0] = 5
    assert x[0] == 5
    for free in (view, later):
        free.flags.writeable = True
        free[0] = 8
    frozen.flags.writeable = False
    rest = frozen[1:]
    del frozen
    with pytest.raises(ValueError, match="cannot set"):
        rest.flags.writeable = True
    wide = wf.broadcast_to(wf.ones(3), (2, 3))
    assert not wide.flags.writeable
    with pytest.raises(ValueError, match="cannot set"):
        wide.flags.writeable = True


@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize("read", [False, True])
def test_arrays_resize_in_place(read: bool, immediate: int) -> None:
    for start, shape in ((6, (2, 4)), (6, (3,)), (0, (2,)), (40_000, (3,)), (40_000, (9, 5000))):
        wanted = np.arange(float(start))
        with override(immediate=immediate):
            found = wf.arange(float(start)) * 1
            if read:
                assert np.asarray(found).sum() == wanted.sum() and (not start or found[start - 1].item() == start - 1)
            wanted.resize(shape, refcheck=False)
            found.resize(shape)
            assert found.shape == shape and found.nbytes == wanted.nbytes
            np.testing.assert_array_equal(found, wanted)
            with pytest.raises(IndexError):
                found[..., shape[-1]] = 1
    with pytest.raises(ValueError, match="own"):
        wf.ones(5)[1:].resize(2)


@pytest.mark.parametrize("size", [6, 40_000])
@pytest.mark.parametrize("read", [False, True])
def test_arrays_with_views_resize_as_in_numpy(size: int, read: bool) -> None:
    x = wf.arange(float(size)) * 1
    if read:
        assert x[1].item() == 1
    view, number = x[2:5], x[1]
    with pytest.raises(ValueError, match="referenced by another array"):
        x.resize(size + 3)
    x.resize(2, size // 2)  # (the size is unchanged, so the view still shares memory)
    view[0] = -1
    assert x.shape == (2, size // 2) and x[0, 2] == -1
    x.resize(size + 3, refcheck=False)
    assert x[2] == -1 and x[-1] == 0 and view[0] == -1 and number == 1
    del view, number
    x.resize(3)
    np.testing.assert_array_equal(x, [0, 1, -1])


def test_scalars_have_what_numpys_have() -> None:
    x = wf.arange(5) * 1.5
    assert repr(x.sum()) == repr(np.float64(15.0)) and f"{[x[1]]}" == "[np.float64(1.5)]"
    assert x[2].is_integer() and x[1].as_integer_ratio() == (3, 2) and wf.arange(9)[7].bit_count() == 3
    with pytest.raises(AttributeError, match="float64.* has no attribute 'bit_length'"):
        x[1].bit_length()


def test_bytes_are_exported() -> None:
    x = wf.arange(4, dtype=np.int16)
    assert bytes(x.data) == bytes(x) == np.arange(4, dtype=np.int16).tobytes()
    assert memoryview(x).tolist() == [0, 1, 2, 3]
    assert x.data.readonly == x.__buffer__(0).readonly == (x.device.name != "cpu")
    x.flags.writeable = False
    with pytest.raises(BufferError):
        x.__buffer__(1)  # (a request for a writable buffer)


def test_frequencies_of_a_dtype() -> None:
    for found, wanted in (
        (wf.fft.fftfreq(5, 0.5, dtype=np.float32), np.fft.fftfreq(5, 0.5)),
        (wf.fft.rfftfreq(6), np.fft.rfftfreq(6)),
    ):
        assert isinstance(found, wf.Array)
        np.testing.assert_array_equal(found, wanted.astype(found.dtype))
    assert wf.fft.fftfreq(4, dtype=wf.float32).dtype == np.float32
