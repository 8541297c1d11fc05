"""Native code draws the same numbers from PCG64 as NumPy, and leaves the generator in the same state."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override
from weft.runtime.cpu import native
from weft.runtime.cpu.random import draws, generators

METHODS = list(draws.METHODS)


@cache
def _code(method: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "disk_cache", lambda: None)  # (so that this thread compiles)
        return draws._obtain(draws.METHODS[method], True)


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the native code of all methods, which otherwise is loaded only after many draws."""
    for method in METHODS:
        monkeypatch.setattr(draws.READY[method], "loaded", _code(method))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("method", METHODS)
def test_numbers_and_state_are_numpys(method: str, threads: int) -> None:
    ours, theirs = np.random.default_rng(11), np.random.default_rng(11)
    with override(threads=threads):
        for count in (8192, 8193, 50_000, 300_001):
            values = np.empty(count)
            assert draws.fill_with_draws(method, ours.bit_generator, values)
            np.testing.assert_array_equal(values, getattr(theirs, method)(count))
            assert ours.bit_generator.state == theirs.bit_generator.state
            # also alternate with NumPy's own draws, which use half of a generator step
            assert ours.integers(9, dtype=np.int32) == theirs.integers(9, dtype=np.int32)


@pytest.mark.parametrize("method", METHODS)
def test_blocks_that_begin_inside_an_element_are_drawn_again(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "LEAST_BLOCK", 16)
    monkeypatch.setattr(draws, "BLOCK", 64)  # so that several hundred blocks begin inside an element
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    values = np.empty(1_000_000)
    with override(threads=2):
        assert draws.fill_with_draws(method, ours.bit_generator, values)
    np.testing.assert_array_equal(values, getattr(theirs, method)(1_000_000))
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_scale_and_place() -> None:
    ours, theirs = np.random.default_rng(2), np.random.default_rng(2)
    values = np.empty((100, 200))
    assert draws.fill_with_draws("standard_normal", ours.bit_generator, values, 3.0, -7.0)
    np.testing.assert_array_equal(values, theirs.normal(-7.0, 3.0, (100, 200)))


def test_what_numpy_draws() -> None:
    values = np.empty(100_000)
    assert not draws.fill_with_draws("standard_normal", np.random.MT19937(1), values)
    assert not draws.fill_with_draws("standard_normal", np.random.PCG64DXSM(1), values)
    generator = np.random.PCG64(1)
    assert not draws.fill_with_draws("standard_normal", generator, np.empty(100))
    assert generator.state == np.random.PCG64(1).state


def test_code_that_draws_other_numbers_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = draws._ziggurats()[0].copy()
    wrong[1, 77] += np.uint64(1)  # changes the last bit of a table entry
    code = _code("standard_normal")
    assert draws._draws_as_numpy(draws.METHODS["standard_normal"], code)
    assert not draws._draws_as_numpy(draws.METHODS["standard_normal"], code._replace(tables=wrong.ctypes.data))


def test_a_profile_shows_draws_of_native_code() -> None:
    with wf.profile() as profile:
        generators.draw_many(np.random.default_rng(1), "normal", (3.0, 2.0, 50_000), {})
        generators.draw_many(np.random.default_rng(1), "normal", (3.0, 2.0, 5), {})  # NumPy draws
    (launch,) = profile.launches
    assert (launch.note.name, launch.note.nbytes) == ("random.normal", 400_000)
