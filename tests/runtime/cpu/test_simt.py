"""Tests of device `simt`, which runs GPU schedules on the CPU."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from weft.codegen import Kernel, KernelBuilder, Pointer, compile_kernel
from weft.codegen.schedules.writer import ThreadWriter
from weft.runtime import get_device, override
from weft.runtime.cpu import interrupts

THREADS = 64
W = np.random.default_rng(0).random((9, 1300)).astype("f4")
X = W[:4]
Y = np.random.default_rng(1).random((150, 70)).astype("f4")
Z = np.random.default_rng(2).random((3, 40, 300)).astype("f4")


def planted(fault: str) -> Kernel:
    """Return a scheduled kernel with the given fault.

    Without the fault, thread t would write to out[t] the value that thread 63 - t has stored in shared memory.
    """
    b = KernelBuilder("planted", np.int32, "threaded")
    out = b.pointer("out", np.float32, writable=True, align=16)
    held = b.emit("shared", (), (Pointer(np.dtype("f4"), "shared"),), count=THREADS)[0]
    thread = b.emit("thread_index", (), (np.dtype("i4"),), axis=0)[0]
    last = b.constant(THREADS - 1)
    other = b.op("subtract", last, thread)
    if fault in ("unwritten", "cooperative"):
        with b.if_(b.op("less", thread, last, dtype=np.bool_)):
            b.store(held, thread, b.cast(thread, np.float32))
    else:
        b.store(held, thread, b.cast(thread, np.float32))
    if fault == "cooperative":
        b.emit("grid_barrier")
    if fault == "divergent":
        with b.if_(b.op("less", thread, b.constant(32), dtype=np.bool_)):
            b.emit("barrier")
    elif fault == "warp only":
        b.emit("shuffle_xor", (b.load(held, thread),), (np.dtype("f4"),), mask=1)
    elif fault != "no barrier":
        b.emit("barrier")
    value = b.load(held, other)
    if fault == "misaligned":
        first = b.op("add", b.op("multiply", thread, b.constant(4)), b.constant(1))
        address = b.offset(out, first)
        for lane in range(4):
            b.store(address, b.constant(lane), value, **({} if lane else {"align": 16}))
    elif fault == "same address":
        b.store(out, b.constant(0), value)
    else:
        b.store(out, thread, value)
    kernel = b.finish()
    kernel.attributes |= {"scheme": "elements", "block": THREADS, "per_block": THREADS, "most_blocks": 1}
    return kernel


def run_planted(fault: str, way: str) -> np.ndarray:
    device = get_device(f"simt::{way}" if way else "simt")
    out = device.upload(np.zeros(8 * THREADS, "f4"))
    function = device.load(compile_kernel(planted(fault), device.target))
    device.launch(function, (THREADS,), THREADS, array("q", [out.address]))
    return np.array(device.download(out, np.dtype("f4"), (8 * THREADS,)))[:THREADS]


WANTED = np.arange(THREADS, dtype="f4")[::-1]


@pytest.mark.parametrize("way", ["", "backward", "sanitized"])
def test_a_kernel_without_a_fault_runs_silently(way: str) -> None:
    assert np.array_equal(run_planted("", way), WANTED)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("no barrier", "race"),
        ("warp only", "race"),  # a race between warps, which a shuffle does not synchronize
        ("unwritten", "uninitialized"),
        ("divergent", "divergent barrier"),
        ("misaligned", "misaligned"),
        ("same address", "race"),
    ],
)
def test_a_planted_fault_is_found_where_threads_are_sanitized(fault: str, kind: str) -> None:
    with pytest.raises(wf.SanitizerError) as caught:
        run_planted(fault, "sanitized")
    assert kind in {report.kind for report in caught.value.reports}
    assert caught.value.kernel == "planted"


def test_a_missing_barrier_changes_bits_with_the_order_of_threads() -> None:
    """Test that, if a barrier is missing, half of the threads read NaN, and that the order of threads decides which
    half.
    """
    forward, backward = run_planted("no barrier", ""), run_planted("no barrier", "backward")
    assert np.isnan(forward[: THREADS // 2]).all()
    assert np.array_equal(forward[THREADS // 2 :], WANTED[THREADS // 2 :])
    assert np.isnan(backward[THREADS // 2 :]).all()
    assert np.array_equal(backward[: THREADS // 2], WANTED[: THREADS // 2])


@pytest.mark.parametrize("way", ["", "backward"])
@pytest.mark.parametrize("fault", ["unwritten", "cooperative"])
def test_shared_memory_begins_as_nan(fault: str, way: str) -> None:
    run_planted("", way)  # (the kernel may get the memory that this kernel has freed)
    found = run_planted(fault, way)
    assert np.isnan(found[0])
    assert np.array_equal(found[1:], WANTED[1:])


PROGRAMS: dict[str, Callable[[], wf.Array]] = {
    "softmax": lambda: (lambda e: e / e.sum(axis=1, keepdims=True))(wf.exp(wf.asarray(X))),
    "rows": lambda: wf.asarray(X).max(axis=1) + wf.asarray(X).sum(axis=1),
    "columns": lambda: wf.asarray(Y).sum(axis=0),
    "few columns": lambda: wf.asarray(Y)[:, :5].sum(axis=0),
    "columns of complex numbers": lambda: wf.asarray(Y.astype("c8")).sum(axis=0),
    "everything": lambda: wf.asarray(Y).mean(),
    "chunks": lambda: wf.sin(wf.asarray(np.arange(33_000.0))).sum(),
    "transposed": lambda: wf.asarray(Y).T + wf.asarray(Y[:70, :1]),
    "scan": lambda: wf.cumsum(wf.asarray(X), axis=1),
    "rows far apart": lambda: wf.asarray(Z).sum(axis=(0, 2)),
    "columns of batches": lambda: wf.asarray(Z[:3, :, :70]).sum(axis=1),
    "columns by strides": lambda: wf.asarray(Z)[::2, ::3].max(axis=(0, 1)) / wf.asarray(Z)[::2, ::3].sum(axis=(0, 1)),
    "long scans": lambda: wf.cumsum(wf.asarray(np.arange(18_000, dtype="i4").reshape(2, -1)), axis=1),
    "counts": lambda: wf.bincount(wf.asarray(np.arange(5_000) * 7 % 5)),
    "in place": lambda: _stepped(),
    "read by all, written by one": lambda: _overwritten(),
    "in place, backward": lambda: _turned(),
    "rows in place": lambda: _centred(),
}


def _overwritten() -> wf.Array:
    one = wf.asarray(np.ones(1, "i1"))
    total = wf.broadcast_to(one, (50,)).astype("i8").min(axis=0)
    one[0] = 2
    wf.evaluate(one, total)
    return total


def _turned() -> wf.Array:
    x = wf.asarray(X[:4, :72])
    wf.evaluate(x)
    x[:, ::-1] *= x.sum(axis=0)
    return x


def _centred() -> wf.Array:
    x = wf.asarray(X[:, :1100])
    wf.evaluate(x)
    x -= x.mean(axis=1, keepdims=True)
    return x


def _stepped() -> wf.Array:
    x = wf.asarray(W)
    x[1:-1] += x[2:] * x[:-2]
    return x


@pytest.mark.parametrize("name", PROGRAMS)
def test_schedules_have_no_races_and_any_number_of_blocks_gives_the_same_bits(name: str) -> None:
    found = []
    for way in ("simt", "simt::backward", "simt::sanitized"):
        # races are found with the blocks that the schedule chooses, and with more iterations per block
        for blocks in (2**31 - 1, 3) if way == "simt::sanitized" else (2**31 - 1, 1, 3):
            with wf.device(way) as device:
                before, device.most_blocks = device.most_blocks, blocks
                try:
                    found.append(np.array(PROGRAMS[name]()))
                finally:
                    device.most_blocks = before
    for other in found[1:]:
        assert np.array_equal(found[0], other)
    with wf.device("cpu"):
        assert np.allclose(found[0], np.array(PROGRAMS[name]()), rtol=1e-5, atol=1e-6)


def test_no_signal_ends_a_plans_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that signals do not interrupt a kernel of a plan.

    An interrupted kernel would leave arrays partly overwritten.
    """

    def ended(*_: int) -> None:
        raise AssertionError("it can be ended")

    monkeypatch.setattr(interrupts, "guard", lambda: interrupts.Guard(ended, 0, 0, 0, 0))
    with wf.device("simt"):
        assert np.array_equal(np.array(wf.asarray(X) + 1), X + 1)


def test_the_barriers_of_schedules_are_needed_and_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that the sanitizer reports a race in a row reduction if its barriers are removed."""
    monkeypatch.setattr(ThreadWriter, "barrier", lambda self: None)
    with override(cache=False), wf.device("simt::sanitized"):
        rows = wf.asarray(X) * 0.4375  # a separate kernel, since cached kernels were compiled with barriers
        with pytest.raises(wf.SanitizerError, match="race"):
            wf.evaluate(rows.sum(axis=1))


def test_sm_75_and_sm_100_have_schedules_too() -> None:
    for name in ("simt:sm_75", "simt:sm_100:sanitized"):
        with wf.device(name):
            assert np.array_equal(np.array(wf.asarray(X) + 1), X + 1)
