"""Fixtures: a stand-in for the driver, and a CUDA device that uses it.

The stand-in delays kernels as long as possible.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.stand_in import RunningDevice, RunningStandIn
from weft.runtime import set_default_device


@pytest.fixture
def driver() -> Iterator[RunningStandIn]:
    gc.freeze()  # (The collection below then visits only objects of the test.)
    made = RunningStandIn()
    yield made
    gc.collect()
    gc.unfreeze()
    assert not made.memory.wrong
    made.close()


@pytest.fixture
def device(driver: RunningStandIn) -> Iterator[RunningDevice]:
    made = RunningDevice(driver)
    set_default_device(made)
    yield made
    set_default_device(None)
    made.memory.empty()  # (the buffers on free lists refer to the device)
