"""Tests of selections and assignments by boolean masks.

The values are NumPy's on every device. On a GPU, masks are not copied to the host.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays import indexing
from weft.dsl.arrays.masks import MaskCopier
from weft.fusion import reset_statistics, statistics
from weft.runtime import override

RNG = np.random.default_rng(3)
SHAPES = [(10,), (30, 40), (9000,), (3, 4, 5)]


def masks(kind: str, values: np.ndarray) -> Any:
    match kind:
        case "numpy":
            return values
        case "stored":
            return wf.asarray(values)
    return wf.asarray(values.astype(np.int8)) > 0


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("kind", ["numpy", "stored", "pending"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_array_goes_to_what_a_mask_takes(shape: tuple[int, ...], kind: str, device: str) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    for share in (0.0, 0.05, 0.5, 1.0):
        mask = RNG.random(shape) < share
        values = RNG.integers(-9, 9, mask.sum())
        wanted = x.copy()
        wanted[mask] = values
        with wf.device(device):
            found = wf.asarray(x)
            found[masks(kind, mask)] = wf.asarray(values)
            np.testing.assert_array_equal(np.asarray(found), wanted, strict=True)


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("shape", [(1,), *SHAPES])
def test_what_a_mask_takes_is_found(shape: tuple[int, ...], device: str) -> None:
    x = RNG.integers(-9, 9, shape)
    for share in (0.0, 0.05, 0.5, 1.0):
        mask = RNG.random(shape) < share
        with wf.device(device):
            a, m = wf.asarray(x), wf.asarray(mask)
            for ours, theirs in zip(wf.nonzero(m), np.nonzero(mask), strict=True):
                np.testing.assert_array_equal(np.asarray(ours), theirs, strict=True)
            np.testing.assert_array_equal(np.asarray(a[m] * 2), x[mask] * 2, strict=True)
            np.testing.assert_array_equal(np.asarray(a[a + 1 > 3]), x[x > 2], strict=True)
            np.testing.assert_array_equal(np.asarray(a.nonzero()[0]), x.nonzero()[0], strict=True)
            if len(shape) == 2:
                np.testing.assert_array_equal(np.asarray(a[m[:, 0], 1:]), x[mask[:, 0], 1:], strict=True)
                np.testing.assert_array_equal(np.asarray(a[2:, m[1]]), x[2:, mask[1]], strict=True)
            a[m] += 1
            np.testing.assert_array_equal(np.asarray(a), x + mask)


def test_on_a_gpu_a_mask_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.standard_normal(5000)
    with wf.device("simt") as device:
        a = wf.asarray(x)
        most = []
        download = type(device).download

        def watched(self: Any, buffer: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
            most.append(int(np.prod(shape)))
            return download(self, buffer, dtype, shape)

        monkeypatch.setattr(type(device), "download", watched)
        found = a[a > 0] * 2
        wf.evaluate(found)
        assert max(most) == 1  # one: the number of selected elements
        monkeypatch.undo()
        np.testing.assert_array_equal(np.asarray(found), x[x > 0] * 2)


@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_what_is_assigned_may_be_the_array_itself(device: str) -> None:
    x = RNG.standard_normal(5000)
    with wf.device(device):
        found, wanted = wf.asarray(x), x.copy()
        for a in (found, wanted):
            a[a > 0.3] = a[a > 0.3] * 2 + 1
            a[1:][a[1:] < 0] = a[1:][a[1:] < 0][::-1]
            view = a[::-1]
            view[view > 1] = view[view > 1][::-1]
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_count_and_choice_are_one_kernel() -> None:
    x, mask = RNG.standard_normal(9000), RNG.random(9000) < 0.5
    with wf.device("simt"):
        a, m, v = wf.asarray(x), wf.asarray(mask), wf.asarray(np.arange(int(mask.sum())))
        wf.evaluate(a, m, v)
        a[m] = v
        reset_statistics()
        wf.evaluate(a)
    assert statistics()["kernels"] == 1


@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_too_few_values_are_refused(device: str) -> None:
    with wf.device(device):
        a = wf.asarray(np.zeros(4))
        with pytest.raises(ValueError, match="shape"):
            a[np.array([True, True, True, False])] = wf.asarray(np.ones(2))
        assert not np.asarray(a).any()


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64"])
def test_few_elements_are_taken_at_once(dtype: str) -> None:
    source = (np.arange(24).reshape(4, 3, 2) % 5).astype(dtype)
    x = wf.asarray(source)
    for array, wanted in ((x, source), (x + x, source + source), (x[::-1, :, 1], source[::-1, :, 1])):
        for axes in range(1, wanted.ndim + 1):
            mask = wf.asarray(np.arange(24)[: np.prod(wanted.shape[:axes])].reshape(wanted.shape[:axes]) % 3 == 1)
            taken = array[mask]
            assert taken._storage.buffer is not None  # already evaluated
            found = np.asarray(taken)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted[np.asarray(mask)])
    taken = x[x != 0]
    before = np.array(taken)
    x[...] = 0
    np.testing.assert_array_equal(np.asarray(taken), before)
    with pytest.raises(IndexError, match="did not match"):
        x[wf.ones(3, bool)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(200_000,), (700, 300), (90_000, 3), (3, 90_000), (40, 50, 60)])
def test_a_large_mask_is_gone_through_in_blocks(shape: tuple[int, ...], threads: int) -> None:
    x = RNG.integers(-100, 100, shape).astype(np.int32)
    a = wf.asarray(x)
    with override(threads=threads):
        for share in (0, 40, 200):
            np.testing.assert_array_equal(np.asarray(a[a < share - 100]), x[x < share - 100], strict=True)
            np.testing.assert_array_equal(np.asarray(a.T[a.T < share - 100]), x.T[x.T < share - 100], strict=True)
            np.testing.assert_array_equal(np.asarray(a[::-1, ...][a > 0]), x[::-1, ...][x > 0], strict=True)
            rows = x[..., 0] < share - 100
            np.testing.assert_array_equal(np.asarray(a[wf.asarray(rows)]), x[rows], strict=True)
            for ours, theirs in zip(wf.nonzero(a < share - 100), np.nonzero(x < share - 100), strict=True):
                np.testing.assert_array_equal(np.asarray(ours), theirs, strict=True)


def test_what_a_mask_takes_can_be_written_to() -> None:
    x = np.arange(100_000.0)
    a = wf.asarray(x)
    taken = a[a > 50_000]
    taken += 1
    np.testing.assert_array_equal(np.asarray(taken), x[x > 50_000] + 1)
    np.testing.assert_array_equal(np.asarray(a), x)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize("few", [0, 16384])
def test_what_a_mask_takes_is_an_array_of_any_dtype(dtype: str, few: int) -> None:
    with override(immediate=few):
        taken = wf.asarray(np.arange(9.0)).astype(dtype)[wf.arange(9) > 3]
        assert isinstance(taken, wf.Array)
        turned = wf.flip(taken)
        turned += 1
        assert np.asarray(taken, "float32").tolist() == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("shape", [(40_000,), (300, 300), (300, 300, 2)])
def test_masks_with_and_without_runs_take_the_same(shape: tuple[int, ...], runs: bool) -> None:
    """Test that weft selects the same elements as NumPy, by masks with and without long runs of equal values.

    Each mask is changed after the first selection.
    """
    x = RNG.standard_normal(shape)
    mask = (
        np.sin(np.arange(x[..., 0].size if x.ndim == 3 else x.size) * 0.01) > 0 if runs else RNG.random(shape[:2]) > 0.5
    )
    mask = mask.reshape(shape[:2]).copy()
    array, ours = wf.asarray(x), wf.asarray(mask)
    np.testing.assert_array_equal(array[ours], x[mask], strict=True)
    ours[::2] = mask[::2] = False
    np.testing.assert_array_equal(array[ours], x[mask], strict=True)
    np.testing.assert_array_equal(
        array[:, ::-1][ours] if x.ndim > 1 else array[::-1][ours], x[:, ::-1][mask] if x.ndim > 1 else x[::-1][mask]
    )


@pytest.mark.parametrize("shape", [(20_000,), (20_000, 4), (200, 100, 2), (20_000, 0)])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0, "runs"])
def test_masks_of_middle_size(shape: tuple[int, ...], share: float | str) -> None:
    """Compare selections from arrays of medium size with NumPy's."""
    x = RNG.standard_normal(shape)
    for axes in range(1, len(shape) + (0 not in shape)):
        count = int(np.prod(shape[:axes]))
        flat = np.arange(count) // 100 % 2 == 0 if isinstance(share, str) else RNG.random(count) < share
        mask = flat.reshape(shape[:axes])
        ours, theirs = wf.asarray(x), wf.asarray(mask)
        for array, wanted in ((ours, x), (ours[::-1], x[::-1])):
            np.testing.assert_array_equal(np.asarray(array[theirs]), wanted[mask], strict=True)
            if axes == 1:
                np.testing.assert_array_equal(np.asarray(array[theirs[::-1]]), wanted[mask[::-1]], strict=True)


@pytest.mark.parametrize("shape", [(65_541,), (65_541, 2), (65_541, 3)])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64", "complex128"])
def test_the_kernel_takes_what_numpy_takes(dtype: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Test kernels that select elements by a mask, or find the positions of a mask's true elements. The results must equal NumPy's.

    The masks have groups of eight elements that are all true, partly true, and all false. The kernels write nothing
    after the end of the result.
    """
    monkeypatch.setattr("weft.dsl.arrays.masks.compile_price", lambda: -1.0)
    x = RNG.integers(-100, 100, shape).astype(dtype)
    ends = np.arange(shape[0]) < 9
    for mask in (
        RNG.random(shape[0]) < 0.5,
        RNG.random(shape[0]) < 0.999,
        RNG.random(shape[0]) < 1e-4,
        ends,
        ~ends,
        ends[::-1],
    ):
        out = np.zeros(shape[0] + 8, dtype=(dtype, shape[1:]))
        count = np.count_nonzero(mask)
        for _ in range(2):
            MaskCopier(x[:1].nbytes)(x, mask.copy(), out[:count], 2)
            np.testing.assert_array_equal(out[:count], x[mask], strict=True)
            assert not out[count:].any()
            np.testing.assert_array_equal(np.asarray(wf.asarray(x)[wf.asarray(mask)]), x[mask], strict=True)
            positions = np.zeros(shape[0] + 8, np.int64)
            copier = MaskCopier(None)
            np.testing.assert_array_equal(copier.find(mask), np.flatnonzero(mask))  # (this compiles the kernel)
            assert copier.run is not None
            copier.run(None, mask.copy(), positions[:count], 2)
            np.testing.assert_array_equal(positions[:count], np.flatnonzero(mask))
            assert not positions[count:].any()


def test_a_mask_of_other_bytes_writes_nothing_behind_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.dsl.arrays.masks.compile_price", lambda: -1.0)
    x, mask = np.arange(20_003.0), (np.arange(20_003) % 200).astype(np.uint8).view(bool)
    out = np.zeros(30_000)
    bytes_ = mask.view(np.uint8)
    MaskCopier(8)(x, bytes_ != 0, out[: np.count_nonzero(bytes_)], 1)  # (later calls use the kernel)
    for room in (np.count_nonzero(bytes_), 1000, 5):
        out[:] = 0
        MaskCopier(8)(x, mask, out[:room], 1)
        np.testing.assert_array_equal(out[:room], x[bytes_ != 0][:room])
        assert not out[room:].any()


@pytest.mark.parametrize("size", [6, 40_000])
@pytest.mark.parametrize("pending", [False, True])
def test_complex_values_assigned_to_real_elements_warn(size: int, pending: bool) -> None:
    for value in (np.array([2j]), np.array(3 + 1j), np.ones(size - 4) * (1 + 1j)):
        seen = []
        for xp in (np, wf):
            x = xp.asarray(np.arange(50_000.0))
            x = (x + 0)[:size] if pending else xp.asarray(np.arange(float(size)))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                x[x > 3] = xp.asarray(value)
            seen.append(([each.category for each in caught], np.asarray(x).tolist()))
        assert seen[0] == seen[1]


def test_a_numpy_mask_is_copied_to_the_arrays_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that a large NumPy mask is copied to the array's device, so that the selection runs the same code as for a weft mask.

    The selection uses the values that the mask has at the call.
    """
    values = RNG.random((200, 300))
    mask = values > 0.4
    x = wf.asarray(values) * 1.0
    used: list[int] = []
    select = indexing.select
    monkeypatch.setattr(indexing, "select", lambda array, key: used.append(key.size) or select(array, key))
    taken, expected = x[mask], values[mask]
    mask[:] = False
    np.testing.assert_array_equal(taken, expected)
    assert used == [mask.size]
    with pytest.raises(IndexError, match="boolean index did not match"):
        x[mask[:, :-1]]
