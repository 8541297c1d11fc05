"""Tests of textures in every mode on a real GPU (``pytest -m gpu``).

The expected values come from a NumPy implementation.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from tests.dsl.kernel.library.texture_reference import KERNELS, MODES, SHAPES, points_of, sample
from weft import cuda

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("filter", "address", "normalized"), MODES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{len(s)}d")
def test_modes(shape: tuple[int, ...], filter: str, address: str, normalized: bool) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    points = points_of(shape, normalized)
    t = wf.texture(values, filter=filter, address=address, normalized=normalized)
    assert t.handle
    out = cuda.device_array(len(points), np.float32)
    wf.kernel(KERNELS[len(shape) - 1]).forall(len(points))(t, cuda.to_device(points), out)
    right = sample(values, points.tolist(), filter, address, normalized)
    # the rounding of weights to 8 fractional bits is not documented
    unit = np.ptp(values) / 256 * len(shape) if filter == "linear" else 0
    np.testing.assert_allclose(out.copy_to_host(), right, rtol=0, atol=unit + 1e-6)


def test_integers_and_the_end_of_a_texture() -> None:
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        info = np.iinfo(dtype)
        values = np.random.default_rng(1).integers(info.min, info.max, (6, 8), dtype, endpoint=True)
        points = points_of(values.shape, False)
        out = cuda.device_array(len(points), dtype)
        t = wf.texture(values, address="border")
        wf.kernel(KERNELS[1]).forall(len(points))(t, cuda.to_device(points), out)
        del t  # while the kernel may still be running
        assert np.array_equal(out.copy_to_host(), sample(values, points.tolist(), "nearest", "border", False))
