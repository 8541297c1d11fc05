"""Tests that the function `astype` casts arrays and copies them to a device."""

from __future__ import annotations

import pytest

import weft as wf


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_astype_copies_to_a_device(device: str, dtype: str) -> None:
    found = wf.astype(wf.arange(3.0), dtype, device=device)
    assert found.device.name == device and found.dtype == dtype and found.tolist() == [0, 1, 2]
