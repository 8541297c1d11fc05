"""Tests of updates that together replace all elements of an array."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

IMMEDIATE = 0


def stream_planes(xp: Any, f: Any) -> None:
    for k in range(9):
        f[k] = xp.roll(xp.roll(f[k], k % 3 - 1, axis=0), k // 3 - 1, axis=1)


def stream_columns(xp: Any, f: Any) -> None:
    for k in range(f.shape[-1]):
        f[..., k] = xp.roll(f[..., k], k - 2, axis=0)
        f[..., k] = xp.roll(f[..., k], 1, axis=1)


def shift_levels(xp: Any, f: Any) -> None:
    f[1:] = f[:-1].copy()
    f[0] = f[1] + f[2]


def swap_halves(xp: Any, f: Any) -> None:
    upper = f[4:].copy()
    f[4:8], f[:4] = f[:4] * 2, upper[:4]
    f[8:] = f[:1] + f[4:5]


def mirror(xp: Any, f: Any) -> None:
    f[::-1][:3] = f[:3] + f[6:]
    f[:6] = f[3:] - f[:6]


def scale_parts(xp: Any, f: Any) -> None:
    f[:4] *= 2
    f[4:] += 1
    f[:4] -= 3


def replace_then_change(xp: Any, f: Any) -> None:
    stream_planes(xp, f)
    f[:, 0] = f[:, -1]
    f[2, 1:-1] += f[3, 1:-1]


def read_across_parts(xp: Any, f: Any) -> None:
    f[:4] = f[4:8]
    f[4:] = f[3:8] + f[2:7]


@pytest.mark.parametrize(
    "change",
    [
        stream_planes,
        stream_columns,
        shift_levels,
        swap_halves,
        mirror,
        scale_parts,
        replace_then_change,
        read_across_parts,
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_results_are_numpys(change: Callable[[Any, Any], None], kept: bool) -> None:
    x = np.arange(9 * 8 * 6.0).reshape(9, 8, 6)
    f = wf.asarray(x)
    before = f + 0 if kept else None
    first, wanted = f[0], x.copy()
    for _ in range(3):
        change(wf, f)
        change(np, wanted)
    np.testing.assert_array_equal(f.numpy(), wanted)
    np.testing.assert_array_equal(first.numpy(), wanted[0])
    if before is not None:
        np.testing.assert_array_equal(before.numpy(), x)


def random_changes(seed: int) -> Callable[[Any, Any], None]:
    """Return a function that updates parts of an array in a random way."""
    draw = random.Random(seed)

    def part(low: int, high: int) -> slice:
        start, stop = sorted(draw.sample(range(low, high + 1), 2))
        return slice(start, stop)

    middle, border = draw.randint(1, 7), draw.randint(1, 7)
    parts = [
        (slice(0, middle), slice(0, 8)),
        (slice(middle, 8), slice(0, border)),
        (slice(middle, 8), slice(border, 8)),
    ]
    if draw.random() < 0.5:
        parts = [piece[::-1] for piece in parts]
    draw.shuffle(parts)
    order = parts + draw.choices(parts, k=draw.randint(0, 3))
    if draw.random() < 0.3:
        order.append((part(0, 8), part(0, 8)))
    values = [
        (draw.choice("own roll other scaled reduced flipped".split()), draw.randint(0, 1), draw.choice(parts))
        for _ in order
    ]

    def change(xp: Any, f: Any) -> None:
        for where, (value, along, other) in zip(order, values, strict=True):
            own = f[where]
            match value:
                case "own":
                    f[where] = own * 0.5 + 1
                case "roll":
                    f[where] = xp.roll(own, 1, axis=along)
                case "other":
                    f[where] = f[other].sum() + own
                case "scaled":
                    f[where] *= 2
                case "reduced":
                    f[where] = own.max(axis=along, keepdims=True)
                case "flipped":
                    f[where] = xp.flip(own, along) - f[other][:1, :1]

    return change


@pytest.mark.parametrize("seed", range(60))
def test_results_of_random_changes_are_numpys(seed: int) -> None:
    change = random_changes(seed)
    x = np.arange(64.0).reshape(8, 8) % 7
    f, wanted = wf.asarray(x), x.copy()
    for _ in range(2):
        change(wf, f)
        change(np, wanted)
    np.testing.assert_array_equal(f.numpy(), wanted)


@pytest.mark.parametrize("stream", [stream_planes, stream_columns])
def test_planes_are_moved_in_one_kernel(stream: Callable[[Any, Any], None]) -> None:
    """Test that a lattice Boltzmann step is one kernel that reads and writes each element once."""
    with wf.device("null"):
        f = wf.zeros((9, 400, 200) if stream is stream_planes else (400, 200, 9))
        wf.evaluate(f)
        stream(wf, f)
        explained = wf.explain(f)
    assert len(explained.kernels) == 1
    assert sum(kernel.bytes_read + kernel.bytes_written for kernel in explained.kernels) == 2 * f.nbytes


def test_parts_that_depend_on_their_own_elements_are_updated_in_place() -> None:
    with wf.device("null"):
        f = wf.zeros((900, 80))
        wf.evaluate(f)
        scale_parts(wf, f)
        text = str(wf.explain(f))
    assert "copy" not in text
