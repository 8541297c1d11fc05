"""Tests of scans along rows that several blocks of a GPU share.

The results have NumPy's values, and the same bits for any timing of the blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.stand_in import RunningDevice, RunningStandIn
from weft.codegen import SHARED_ROW, resolve_target
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.lookback import LookbackScan
from weft.codegen.schedules.scans import RowScan
from weft.fusion import kernels_of, reset_statistics, statistics
from weft.runtime.cpu import pool
from weft.runtime.cuda import cuda_device

pytestmark = pytest.mark.cpu

RNG = np.random.default_rng(11)
LONG = 2 * SHARED_ROW + 5
N = RNG.integers(-9, 9, LONG)
D = RNG.standard_normal(LONG)
F = D.astype(np.float32)
Z = F + 1j * F[::-1]
DEVICES = ["simt", "simt::backward", "simt::sanitized"]

PROGRAMS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "integers": lambda xp, c: xp.cumsum(c(N)) * 3 + c(N),
    "small integers": lambda xp, c: xp.cumsum(c(N.astype(np.int8)), dtype=np.int16),
    "counts": lambda xp, c: xp.cumsum(c(N) > 2),
    "truth": lambda xp, c: xp.logical_and.accumulate(c(N) < 8),
    "maxima": lambda xp, c: xp.maximum.accumulate(c(F) * 2),
    "minima of bytes": lambda xp, c: xp.minimum.accumulate(c(N.astype(np.uint8))),
    "bits": lambda xp, c: xp.bitwise_xor.accumulate(c(N) * 12345),
    "two of different sizes": lambda xp, c: (lambda a: (xp.cumsum(a), xp.maximum.accumulate(a.astype(np.int16)) + 1))(
        c(N)
    ),
    "with its input": lambda xp, c: (lambda a: (a * 2, xp.cumsum(a * 2)))(c(N)),
    "backwards": lambda xp, c: xp.cumsum(c(N)[::-1])[::-1],
    "rows": lambda xp, c: xp.cumsum(c(N[: 2 * SHARED_ROW + 4]).reshape(2, -1)[:, : SHARED_ROW + 1], axis=1),
    "rows of whole vectors": lambda xp, c: xp.cumsum(c(N[: 2 * SHARED_ROW]).reshape(1, -1)[:, 4:-4], axis=1) + 1,
    "quarters": lambda xp, c: xp.cumsum(xp.floor(c(D) * 4) / 4) + c(D),
    "float32": lambda xp, c: xp.cumsum(xp.floor(c(F) * 4) / 4),
    "complex": lambda xp, c: xp.cumsum(c(np.round(Z))) * 2,
    "parts": lambda xp, c: (lambda a: xp.cumsum(xp.concatenate([a, a[5:] * 2, a[:3]])) + 1)(c(N)),
    "padded": lambda xp, c: xp.cumsum(xp.pad(c(N), 2)),
    "zeros": lambda xp, c: xp.cumsum(c(F) * -0.0),
}


def tuple_of(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


FEW = ("integers", "parts", "minima of bytes", "two of different sizes", "rows", "complex")


@pytest.mark.parametrize(("name", "device"), [(n, d) for d in DEVICES for n in (PROGRAMS if d == "simt" else FEW)])
def test_exact_ones_have_numpys_bits_in_one_launch(name: str, device: str) -> None:
    program = PROGRAMS[name]
    with wf.device(device):
        found = tuple_of(program(wf, wf.asarray))
        reset_statistics()
        wf.evaluate(*found)
    assert statistics()["kernels"] == 1
    for ours, theirs in zip(found, tuple_of(program(np, lambda x: x)), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs, strict=True)
        assert np.asarray(ours).tobytes() == theirs.tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_share_rows_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that exact scans are bit-identical to NumPy's when several CPU threads share a row."""
    for number, values in {"N": N, "D": D, "F": F, "Z": Z}.items():
        monkeypatch.setitem(globals(), number, np.tile(values, 9))
    program = PROGRAMS[name]
    found = tuple_of(program(wf, wf.asarray))
    reset_statistics()
    wf.evaluate(*found)
    assert statistics()["kernels"] == (1 if name.startswith("rows") else 2)
    for ours, theirs in zip(found, tuple_of(program(np, lambda x: x)), strict=True):
        assert np.asarray(ours).tobytes() == theirs.tobytes()


def test_one_thread_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wf.asarray(RNG.standard_normal(200_001).astype(np.float32))

    def run() -> bytes:
        return np.asarray(wf.cumsum(x)).tobytes()

    several = {run() for _ in range(3)}
    beside = wf.cumsum(x), x * 2, wf.cumsum(x * x), wf.maximum.accumulate(x) - x
    wf.evaluate(*beside)
    several.add(np.asarray(beside[0]).tobytes())
    monkeypatch.setattr(
        pool.Workers, "split", lambda self, function, slots, extent, *_: function.call(slots, 0, extent)
    )
    assert several == {run()}


@pytest.mark.parametrize("length", [1, 5000, 65_536])
def test_shorter_rows_have_numpys_bits(length: int) -> None:
    x = RNG.standard_normal((2, length)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(wf.cumsum(wf.asarray(x), axis=1)), np.cumsum(x, axis=1))


def schedule(result: wf.Array) -> Decision:
    (kernel,) = kernels_of([result._storage], resolve_target("sm_90"))
    found: Decision = kernel.attributes["schedule"]
    return found


def test_rows_of_more_than_a_tile_are_shared() -> None:
    with wf.device("simt"):
        assert isinstance(schedule(wf.asarray(F[:SHARED_ROW]).cumsum()), RowScan)
        assert isinstance(schedule(wf.asarray(F[: SHARED_ROW + 1]).cumsum()), LookbackScan)
        both = schedule(wf.asarray(F).cumsum() * 2)
        assert len(both.vectors) == 2
        # the first element of the input is not aligned to a vector
        written = schedule(wf.asarray(F)[1:].cumsum() * 2)
        assert len(written.vectors) == 1


def test_groups_of_groups() -> None:
    """Test three levels of look-back descriptors: tiles, groups of 32 tiles, and groups of 1024 tiles."""
    x = RNG.integers(0, 256, 1025 * SHARED_ROW + 77).astype(np.uint8)
    with wf.device("simt"):
        found = np.asarray(wf.cumsum(wf.asarray(x), dtype=np.uint32))
    np.testing.assert_array_equal(found, np.cumsum(x, dtype=np.uint32))


def test_rows_with_groups() -> None:
    x = RNG.integers(0, 256, (3, 33 * SHARED_ROW + 1)).astype(np.uint8)
    with wf.device("simt"):
        found = np.asarray(wf.cumsum(wf.asarray(x), axis=1, dtype=np.uint32))
    np.testing.assert_array_equal(found, np.cumsum(x, axis=1, dtype=np.uint32))


def test_sums_are_more_exact_than_one_by_one() -> None:
    x = RNG.standard_normal(40 * SHARED_ROW + 3).astype(np.float32)
    exact = np.cumsum(x, dtype=np.float64)
    with wf.device("simt"):
        found = np.asarray(wf.cumsum(wf.asarray(x)))
    assert np.abs(found - exact).max() < 0.2 * np.abs(np.cumsum(x) - exact).max()


def test_the_same_bits_however_it_runs() -> None:
    x = RNG.standard_normal(70 * SHARED_ROW + 3).astype(np.float32)
    found = set()
    for device in DEVICES[:2]:
        with wf.device(device):
            a = wf.asarray(x)
            found |= {np.asarray(wf.cumsum(a)).tobytes() for _ in range(3)}
            beside = wf.cumsum(a), wf.maximum.accumulate(a), wf.cumsum(a.astype(np.float64))
            wf.evaluate(*beside)
            found.add(np.asarray(beside[0]).tobytes())
            found.add(np.asarray(wf.cumsum(wf.asarray(np.append(x, x[:9])))[: len(x)]).tobytes())
    assert len(found) == 1


def test_in_place() -> None:
    with wf.device("simt"):
        x = wf.asarray(N)
        wf.evaluate(x)
        x[:] = wf.cumsum(x) + x
        np.testing.assert_array_equal(np.asarray(x), np.cumsum(N) + N)


def test_threads_of_the_program_have_descriptors_of_their_own() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for k in range(4):
            x = N * number + k
            with wf.device("simt"):
                if not np.array_equal(np.asarray(wf.cumsum(wf.asarray(x))), np.cumsum(x)):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(("length", "kernels"), [(SHARED_ROW, 1), (LONG, 2)])
def test_who_needs_what_others_find_along_a_shared_row_waits(length: int, kernels: int) -> None:
    reset_statistics()
    x = wf.asarray(N[:length])
    y = wf.cumsum(x) * 2
    z = wf.cumsum(y + 1)
    wf.evaluate(y, z)
    assert statistics()["kernels"] == kernels
    np.testing.assert_array_equal(np.asarray(z), np.cumsum(np.cumsum(N[:length]) * 2 + 1))


# -- look-back descriptors ------------------------------------------------------------------------------


@pytest.fixture
def device() -> Any:
    made = RunningDevice(RunningStandIn())
    wf.set_default_device(made)
    yield made
    wf.set_default_device(None)


def test_launches_and_replays_use_one_board_after_another(device: Any) -> None:
    x = wf.asarray(N)
    for k in range(7):
        np.testing.assert_array_equal(np.asarray(wf.cumsum(x + k)), np.cumsum(N + k))
    longer = np.tile(N, 40)
    for values in (longer, N, longer):
        np.testing.assert_array_equal(np.asarray(wf.cumsum(wf.asarray(values))), np.cumsum(values))


def test_streams_have_descriptors_of_their_own(device: Any) -> None:
    first = device.lookback_descriptors(100)
    with wf.stream():
        assert device.lookback_descriptors(100) is not first
    assert device.lookback_descriptors(100) is first
    assert device.lookback_descriptors(first.nbytes + 1) is not first


def test_a_board_is_new_before_launches_run_out_of_numbers(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_device, "DESCRIPTOR_USES", 3)
    with wf.stream():
        descriptors = [device.lookback_descriptors(100) for _ in range(9)]
    assert len({id(d) for d in descriptors}) == 3
