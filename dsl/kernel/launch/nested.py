"""Kernel launches by kernels, which the host executes after the kernel has ended.

In: the launch queue, which threads of the parent appended to. Out: the launches, in the order of the records, in the
parent's stream. Invariant: a child sees all memory that its parent wrote, and the parent's launch returns when its
children and their children have been started.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.kernel.language.kernel_errors import LaunchError
from weft.dsl.kernel.language.values import in_bytes
from weft.dsl.kernel.library.child_launches import HEAD_WORDS, RECORD_WORDS, RECORDS

if TYPE_CHECKING:
    from weft.dsl.kernel.launch.arguments import Descriptor
    from weft.dsl.kernel.launch.kernel_launch import DispatchedLaunch
    from weft.runtime import Buffer, Device

QUEUE_BYTES = 8 * (1 + RECORDS * RECORD_WORDS)


def make_queue(device: Device) -> Buffer:
    """Return a buffer with an empty launch queue.

    The queue consists of the number of recorded launches, followed by their records.
    """
    queue = device.allocate(QUEUE_BYTES)
    device.write(queue.address, np.zeros(1, np.int64))
    return queue


def launch_children(parent: DispatchedLaunch, queue: Buffer, sites: list[Any]) -> None:
    """Launch the kernels that a kernel has recorded.

    Raises LaunchError for an invalid grid or block size, or for too many launches.
    """
    device = parent.device
    count = int(device.download(queue, np.dtype(np.int64), (1,))[0])
    if count > RECORDS:
        raise LaunchError(f"{parent.kernel.__name__} launches {count} kernels; one kernel launches at most {RECORDS}")
    words = device.download(queue, np.dtype(np.int64), (1 + count * RECORD_WORDS,)) if count else np.zeros(1, np.int64)
    for record in words[1:].reshape(count, RECORD_WORDS).tolist():
        kernel, descriptors = sites[record[0]]
        grid, block, shared = tuple(record[1:4]), tuple(record[4:7]), record[7]
        launcher = kernel.configure(grid, block, 0, shared)
        launcher.stream = parent.launcher.stream
        child = type(parent)(kernel, launcher, ())
        child.device = device
        size = sum(map(_words_of, descriptors))
        child.run_words(descriptors, record[HEAD_WORDS : HEAD_WORDS + size])


def _words_of(descriptor: Descriptor) -> int:
    """Return the number of 64-bit words that encode an argument."""
    match descriptor:
        case ("scalar", dtype, _):
            return 2 if dtype.kind == "c" else 1
        case ("array", _, ndim, packed, _):
            return 1 + ndim * (1 if packed else 2)
        case ("tuple", _, _, parts):
            return sum(map(_words_of, parts))
        case ("pointer" | "date", _):
            return 1
    return 0


def spans_of(descriptors: tuple[Descriptor, ...], words: list[int]) -> tuple[list[int], list[int]]:
    """Return the size in bytes of each array argument's memory, and the lengths of all axes."""
    spans: list[int] = []
    extents: list[int] = []
    at = 0
    for descriptor in _flat(descriptors):
        if descriptor[0] == "array":
            _, dtype, ndim, packed, _ = descriptor
            shape = words[at + 1 : at + 1 + ndim]
            steps = words[at + 1 + ndim : at + 1 + 2 * ndim]
            unit = 1 if in_bytes(dtype) else dtype.itemsize
            far = sum((n - 1) * abs(s) * unit for n, s in zip(shape, steps, strict=True)) if not packed else 0
            spans.append(prod(shape) * dtype.itemsize if packed else far + dtype.itemsize)
            extents.extend(shape)
        at += _words_of(descriptor)
    return spans, extents


def _flat(descriptors: tuple[Descriptor, ...]) -> list[Descriptor]:
    return [part for d in descriptors for part in (_flat(d[3]) if d[0] == "tuple" else [d])]
