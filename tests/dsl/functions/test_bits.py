"""Tests of `packbits` and `unpackbits` on every device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

source = np.random.default_rng(6)


@pytest.fixture(params=["cpu", "simt"], autouse=True)
def _device(request: pytest.FixtureRequest) -> Iterator[None]:
    wf.set_default_device(request.param)
    with override(host_fallback="raise"):
        yield
    wf.set_default_device(None)


def check(name: str, x: np.ndarray, **options: Any) -> None:
    found, wanted = getattr(wf, name)(wf.asarray(x), **options), getattr(np, name)(x, **options)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("shape", [(1,), (16,), (3, 9), (2, 8, 3)])
def test_bits_of_every_axis(shape: tuple[int, ...], axis: int | None, bitorder: str) -> None:
    for dtype in "?BiQ":
        check("packbits", source.integers(0, 3, shape).astype(dtype), axis=axis, bitorder=bitorder)
    x = source.integers(0, 256, shape).astype(np.uint8)
    for count in (None, 3, 200, 0, -2):
        check("unpackbits", x, axis=axis, count=count, bitorder=bitorder)
    if axis is not None:
        bits = source.random(shape) < 0.5
        there = wf.unpackbits(wf.packbits(wf.asarray(bits), axis=axis), axis=axis, count=shape[axis])
        np.testing.assert_array_equal(np.asarray(there), bits)


@pytest.mark.parametrize(
    "call",
    [
        lambda xp: xp.packbits(xp.ones(3)),
        lambda xp: xp.packbits(xp.ones(3, dtype=np.int32), bitorder="other"),
        lambda xp: xp.packbits(xp.ones(3, dtype=np.int32), axis=1),
        lambda xp: xp.unpackbits(xp.ones(3, dtype=np.int32)),
        lambda xp: xp.unpackbits(xp.ones(3, dtype=np.uint8), count=-25),
        lambda xp: xp.unpackbits(xp.ones(3, dtype=np.uint8), axis=2),
    ],
)
def test_errors_are_numpys(call: Any) -> None:
    with pytest.raises(Exception) as wanted:
        call(np)
    with override(host_fallback="ignore"), pytest.raises(type(wanted.value)):
        call(wf)
