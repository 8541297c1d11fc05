"""Tests of arrays that weft shares with other packages without a copy.

The arrays are in CPU memory. Both sides have the same address and see each other's writes. JAX's arrays are read-only
on weft.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf

pytestmark = pytest.mark.clients
SIZES = [8, 200_000]  # below and above the size up to which operations are computed at the call


def address(x: Any) -> int:
    return int(x.__array_interface__["data"][0])


def pending(n: int) -> Any:
    """Return an array of `n` elements. If the array is large, it is not evaluated yet."""
    return wf.arange(float(n)) + 1


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("convert", ["from_dlpack", "as_tensor", "asarray", "from_numpy"])
def test_torch_reads_and_writes_the_arrays_memory(n: int, convert: str) -> None:
    torch = pytest.importorskip("torch")
    x = pending(n)
    # `torch.asarray` reads any buffer that is not NumPy's as bytes of its default dtype
    options = {"dtype": torch.float64} if convert == "asarray" else {}
    tensor = getattr(torch, convert)(x, **options)
    assert tensor.data_ptr() == address(x)
    assert tensor.tolist() == list(range(1, n + 1))
    tensor[0] = 77.0
    assert float(x[0]) == 77.0 and float((x + 0)[0]) == 77.0
    x[1] = 88.0
    x += 1
    assert tensor[1].item() == 89.0 and tensor[0].item() == 78.0


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8", "bool", "complex128", "float16"])
def test_weft_reads_and_writes_a_tensors_memory(n: int, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(n).to(getattr(torch, dtype))
    x = wf.from_dlpack(tensor)
    assert type(x) is wf.Array and x.dtype == dtype
    assert address(x) == tensor.data_ptr()
    before = x[2].item()
    tensor[2] = 0 if before else 1
    assert x[2].item() != before
    x[3:5] = 1
    assert tensor[3:5].tolist() == [1, 1]
    del tensor
    assert x[3:5].tolist() == [1, 1]  # (the memory lives as long as the array)


def test_a_strided_tensor_is_shared() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(120_000.0).reshape(300, 400).T[3::2]
    x = wf.from_dlpack(tensor)
    assert address(x) == tensor.data_ptr()
    assert x.strides == tuple(4 * s for s in tensor.stride())
    x[1, 2] = -5
    assert tensor[1, 2].item() == -5
    tensor[0] = 3
    assert x[0].tolist() == [3.0] * 300


def test_a_copy_of_a_tensor_where_one_is_asked_for() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(5.0)
    x = wf.from_dlpack(tensor, copy=True)
    x[0] = 9
    assert tensor[0].item() == 0 and address(x) != tensor.data_ptr()


def test_jax_reads_the_arrays_memory() -> None:
    jax = pytest.importorskip("jax")
    x = wf.arange(200_000, dtype=np.float32) + np.float32(1)
    theirs = jax.dlpack.from_dlpack(x)
    assert theirs.unsafe_buffer_pointer() == address(x)
    x[0] = 50
    assert np.asarray(theirs)[0] == 50


def test_weft_reads_the_memory_of_jax_and_does_not_write_to_it() -> None:
    pytest.importorskip("jax")
    from jax import numpy as jnp

    theirs = (jnp.arange(1000, dtype=np.float32) * 2).block_until_ready()
    x = wf.from_dlpack(theirs)
    assert address(x) == theirs.unsafe_buffer_pointer()
    assert (x == wf.arange(1000) * 2).all()
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1


def test_pillow_reads_the_arrays_memory() -> None:
    Image = pytest.importorskip("PIL.Image")
    x = (wf.arange(120_000).reshape(300, 400) % 255).astype(np.uint8)
    picture = Image.frombuffer("L", (400, 300), x, "raw", "L", 0, 1)
    assert picture.getpixel((3, 2)) == int(x[2, 3])
    x[2, 3] = 77
    assert picture.getpixel((3, 2)) == 77
    assert Image.fromarray(x).tobytes() == x.tobytes()
    assert wf.asarray(Image.fromarray(x)).tolist() == x.tolist()


@pytest.mark.parametrize("n", SIZES)
def test_a_memoryview_shares_the_memory(n: int) -> None:
    x = pending(n)
    view = memoryview(x)
    assert (view.format, view.shape, view.readonly) == ("d", (n,), False)
    view[0] = -1.0
    x[1] = -2.0
    assert float(x[0]) == -1.0 and view[1] == -2.0
    again = np.frombuffer(x)
    assert again.ctypes.data == address(x)
    again[2] = -3.0
    assert float(x[2]) == -3.0 and view[2] == -3.0


@pytest.mark.parametrize("n", SIZES)
def test_hashes_and_files_have_the_arrays_bytes(n: int, tmp_path: Path) -> None:
    x, same = pending(n), np.arange(1.0, n + 1)
    assert bytes(x) == same.tobytes()
    assert hashlib.sha256(x).digest() == hashlib.sha256(same).digest()
    with (tmp_path / "numbers").open("wb") as file:
        assert file.write(x) == same.nbytes
    assert (tmp_path / "numbers").read_bytes() == same.tobytes()
    y = wf.zeros(n)
    with (tmp_path / "numbers").open("rb") as file:
        assert file.readinto(y) == same.nbytes
    assert (y == x).all()
