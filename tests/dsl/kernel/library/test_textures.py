"""Tests of textures in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.kernel.library.texture_reference import KERNELS, MODES, SHAPES, points_of, sample, sample_1d, sample_2d
from weft import cuda
from weft.codegen import compile_kernel, resolve_target
from weft.dsl.kernel.language.specialize import specialize
from weft.dsl.kernel.launch.arguments import describe_array
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher
from weft.runtime import CompileError, assemble, override
from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.textures import FORMATS, TextureObject


def sampled(t: Any, points: np.ndarray, decorator: Any = wf.kernel) -> np.ndarray:
    out = np.zeros(len(points), t.data.dtype)
    decorator(KERNELS[t.data.ndim - 1])[-(-len(points) // 64), 64](t, points, out)
    return out


@pytest.mark.parametrize(("filter", "address", "normalized"), MODES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{len(s)}d")
def test_modes(shape: tuple[int, ...], filter: str, address: str, normalized: bool) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    points = points_of(shape, normalized)
    t = wf.texture(values, filter=filter, address=address, normalized=normalized)
    right = sample(values, points.tolist(), filter, address, normalized)
    found = sampled(t, points)
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-6)
    assert np.array_equal(sampled(t, points, cuda.jit), found)  # Numba's scalar types do not change the result


@pytest.mark.parametrize("dtype", [d for d in FORMATS if d != "float32"])
def test_integers(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.random.default_rng(1).integers(info.min, info.max, (6, 8), dtype, endpoint=True)
    points = points_of(values.shape, False)
    for address in ("clamp", "border"):
        right = sample(values, points.tolist(), "nearest", address, False)
        assert np.array_equal(sampled(wf.texture(values, address=address), points), right)


def test_coordinates_far_away() -> None:
    values = np.float32([1, 2, 3])
    points = np.float32([[np.inf], [-np.inf], [3e38], [-3e38]])
    assert sampled(wf.texture(values, filter="linear"), points).tolist() == [3, 1, 3, 1]
    assert sampled(wf.texture(values, address="border"), points).tolist() == [0, 0, 0, 0]


def test_the_elements_are_those_of_the_time_it_was_made() -> None:
    values = np.arange(4, dtype=np.float32)
    t, points = wf.texture(values), np.float32([[0.5], [3.5]])
    lazy = wf.asarray(values) + 1
    other = wf.texture(lazy)
    values[:] = 7
    lazy[:] = 7
    assert sampled(t, points).tolist() == [0, 3]
    assert sampled(other, points).tolist() == [1, 4]


def test_python_mode() -> None:
    t = wf.texture(np.float32([[0, 4], [8, 12]]), filter="linear")
    points = np.float32([[1, 1], [0.5, 1], [1, 0]])
    with override(kernel_python=True):
        assert sampled(t, points).tolist() == [6, 4, 2]
    assert sampled(t, points).tolist() == [6, 4, 2]


@pytest.mark.parametrize(
    ("array", "options", "error", "message"),
    [
        (np.zeros(3), {}, TypeError, "a texture of float64"),
        (np.zeros(3, bool), {}, TypeError, "a texture of bool"),
        (np.zeros((2, 2, 2, 2), np.float32), {}, ValueError, "one to three axes"),
        (np.float32(3), {}, ValueError, "one to three axes"),
        (np.zeros((3, 0), np.float32), {}, ValueError, "none of them empty"),
        (np.zeros(3, np.int32), {"filter": "linear"}, TypeError, "interpolates float32, not int32"),
        (np.zeros(3, np.float32), {"filter": "cubic"}, ValueError, "'cubic' is not a valid Filter"),
        (np.zeros(3, np.float32), {"address": "wrap"}, ValueError, "needs normalized=True"),
    ],
)
def test_refusals(array: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wf.texture(array, **options)


def test_a_wrong_number_of_coordinates_is_an_error_on_the_line() -> None:
    t = wf.texture(np.zeros((2, 2), np.float32))
    with pytest.raises(wf.KernelTypeError, match=r"sample(.|\n)*points\[i, 0\]"):
        wf.kernel(sample_1d)[1, 1](t, np.zeros((1, 2), np.float32), np.zeros(1, np.float32))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16"])
def test_ptx(architecture: str, axes: int, dtype: str) -> None:
    t = wf.texture(np.zeros((2,) * axes, dtype))
    kernel = wf.kernel(KERNELS[axes - 1])
    assert isinstance(kernel, KernelDispatcher)
    _, (first, *_) = kernel.described((t, np.zeros((1, axes), np.float32), np.zeros(1, t.data.dtype)))
    arrays = [describe_array(np.dtype(d), n, True) for d, n in (("f4", 2), (dtype, 1))]
    target = resolve_target(architecture)
    made = specialize(kernel.py_func, (first, *arrays), target, np.dtype(np.int32), kernel.options, reporting=False)
    ptx = compile_kernel(made.kernel, target).code
    letter = {"f": "f32", "i": "s32", "u": "u32"}[np.dtype(dtype).kind]
    assert ptx.count(b"tex.") == ptx.count(f"tex.{axes}d.v4.{letter}.f32".encode()) == 1
    try:
        assemble(ptx, architecture)
    except CompileError as error:
        if "not installed" not in str(error):
            raise
        pytest.skip("nvJitLink is not installed")


class Calls:
    """A table of driver functions that records the calls. It uses the structures of cuda.bindings."""

    def __init__(self) -> None:
        self.made: list[tuple[str, tuple[Any, ...]]] = []
        self.bindings = pytest.importorskip("cuda.bindings.driver")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu") or not callable(getattr(self.bindings, name)):
            return getattr(self.bindings, name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            if name.startswith("cuArray3D"):
                (made,) = arguments
                self.made.append((name, (made.Width, made.Height, made.Depth, made.Format.name, made.NumChannels)))
                return 0, self.bindings.CUarray(77)
            if name == "cuMemcpy3D":
                (c,) = arguments
                self.made.append((name, (c.srcPitch, c.srcHeight, int(c.dstArray), c.WidthInBytes, c.Height, c.Depth)))
                return (0,)
            if name == "cuTexObjectCreate":
                resource, texture, view = arguments
                modes = {mode.name for mode in texture.addressMode}
                facts = (
                    resource.resType.name,
                    int(resource.res.array.hArray),
                    texture.filterMode.name,
                    modes,
                    texture.flags,
                )
                self.made.append((name, (*facts, view)))
                return 0, 99
            self.made.append((name, arguments))
            return (0, 12000) if name in ("cuDriverGetVersion", "cuDeviceGet", "cuDevicePrimaryCtxRetain") else (0,)

        return call


def test_calls_of_the_driver() -> None:
    table = Calls()
    driver = Driver(table, 0)
    t = TextureObject(driver, np.zeros((2, 3, 4), np.float32), "linear", "wrap", True)
    assert t.handle == 99
    made = dict(table.made)
    assert made["cuArray3DCreate"] == (4, 3, 2, "CU_AD_FORMAT_FLOAT", 1)
    assert made["cuMemcpy3D"] == (16, 3, 77, 16, 3, 2)
    assert made["cuTexObjectCreate"] == (
        *("CU_RESOURCE_TYPE_ARRAY", 77, "CU_TR_FILTER_MODE_LINEAR", {"CU_TR_ADDRESS_MODE_WRAP"}),
        *(2, None),
    )
    del t
    names = [name for name, _ in table.made]
    assert [n for n in names if "Destroy" in n or "Synchronize" in n] == [
        *("cuCtxSynchronize", "cuTexObjectDestroy", "cuArrayDestroy")
    ]
    flat = TextureObject(driver, np.zeros(5, np.uint8), "point", "border", False)
    made = dict(table.made)
    assert made["cuArray3DCreate"] == (5, 0, 0, "CU_AD_FORMAT_UNSIGNED_INT8", 1)
    assert made["cuMemcpy3D"] == (5, 1, 77, 5, 1, 1)
    assert made["cuTexObjectCreate"][-2] == 1  # the texture is read as integers
    del flat


def test_a_texture_beside_other_arguments() -> None:
    """Test a kernel that takes a tuple of two textures and an array as arguments. The textures have different filter modes."""

    @wf.kernel
    def blend(pair: Any, out: Any) -> None:
        i = cuda.grid(1)
        out[i] = pair[0].sample(i + 0.5) + pair[1].sample(i + 1.0)

    near, between = wf.texture(np.float32([1, 2])), wf.texture(np.float32([10, 20]), filter="linear")
    out = np.zeros(2, np.float32)
    blend[1, 2]((near, between), out)
    assert out.tolist() == [16, 22]
    sample_2d_of_1d = wf.kernel(sample_2d)
    with pytest.raises(wf.KernelTypeError):
        sample_2d_of_1d[1, 1](near, np.zeros((1, 2), np.float32), out)
