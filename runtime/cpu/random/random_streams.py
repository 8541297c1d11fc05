"""Streams: numbers of `random` and `uniform` that are drawn where they are read.

In: a PCG64 generator and a number of draws. Out: the words of a stream, from which the numbers follow at any time and
in any order, and the generator in the state after the draws. Kernels that read a stream element by element get its
numbers block by block, in memory of their thread. Invariant: native code is used only if it has drawn a sample as
NumPy does.

Each number takes one step of the generator, so the state at any number follows from a jump.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu.loader import ENTRY, HostFunction, link_symbols
from weft.runtime.cpu.native import optimised_object
from weft.runtime.cpu.pool import Entry, workers
from weft.runtime.cpu.random.pcg64 import BLOCK, distances, has_known_layout, jump, pcg64_text, state_address
from weft.runtime.cpu.random.readiness import Readiness
from weft.runtime.llvm_files import read_llvm
from weft.runtime.settings import thread_count

STREAM_WORDS = 6
# Number of elements of a stream that a kernel reads at a time, at least and at most: in one iteration, it may read a row.
AT_ONCE, MOST_AT_ONCE = 1 << 12, 1 << 16
# Number of threads whose memory the bits of a word can mark as used.
MOST_THREADS = 64
# Number of elements per chunk of a job, and the number from which on two threads pay.
CHUNK, SHARED_FROM = 1 << 15, 1 << 15
# Number of elements that native code draws in less time than NumPy's loop.
LEAST = 1 << 12
_UNITS, _KERNEL = "weft_draw_units", "weft_drawn_kernel"
_SAMPLE = 5000  # number of elements for the comparison with NumPy: some blocks and a rest


class _Code(NamedTuple):
    units: Entry
    kernel: Entry
    memory: Any  # (keeps the code alive)


class Reader(NamedTuple):
    """A stream that a kernel reads: its argument, its words, the elements per iteration, and the number of elements."""

    argument: int
    words: np.ndarray
    each: int
    count: int


def _obtain(compiling: bool) -> _Code | None:
    text = read_llvm(__file__, "units", PCG64=pcg64_text("store_units"), BLOCK=BLOCK)
    code = optimised_object(_UNITS, text, (), compiling, own=True)
    if code is None:
        return None
    memory, addresses = link_symbols(code.code, {}, (_UNITS, _KERNEL))
    return _Code(*(Entry(ENTRY(address), address) for address in addresses), memory)


def _draws_as_numpy(code: _Code) -> bool:
    generator = np.random.Generator(np.random.PCG64(1))
    words = take_stream(generator.bit_generator, _SAMPLE, 1.5, 0.25)
    assert words is not None
    values, expected = np.empty(_SAMPLE), np.random.Generator(np.random.PCG64(1))
    _fill(code, words, values)
    same = np.array_equal(values, 0.25 + 1.5 * expected.random(_SAMPLE))
    return same and generator.bit_generator.state == expected.bit_generator.state


_code = Readiness(_obtain, _draws_as_numpy)


def take_stream(generator: Any, count: int, scale: float = 1.0, place: float = -0.0) -> np.ndarray | None:
    """Return the words of a stream, and advance the generator.

    Parameters
    ----------
    generator : numpy.random.BitGenerator
    count : int
        Number of draws.
    scale, place : float
        The elements of the stream are ``place + scale * draw``. (A number plus -0.0 is the number.)

    Returns
    -------
    ndarray of uint64 or None
        The state and the increment, each with its low word first, and the bits of `scale` and `place`. None if the
        generator is not PCG64.
    """
    if type(generator) is not np.random.PCG64 or not has_known_layout():
        return None
    words = np.empty(STREAM_WORDS, np.uint64)
    words[4:].view(np.float64)[:] = scale, place
    address = state_address(generator)
    with generator.lock:
        words[:4].view(np.uint8)[:] = np.frombuffer(ctypes.string_at(address, 32), np.uint8)
        state, increment = _numbers(words)
        ctypes.memmove(address, jump(state, increment, count).to_bytes(16, "little"), 16)
    return words


def _numbers(words: np.ndarray) -> tuple[int, int]:
    a, b, c, d = words[:4].tolist()
    return b << 64 | a, d << 64 | c


def fill_from_stream(out: np.ndarray, words: np.ndarray) -> None:
    """Write the elements of a stream to a C-contiguous array."""
    code = _code.find(out.size) if out.size >= LEAST else None
    if code is not None:
        _fill(code, words, out)
        return
    generator = np.random.PCG64(0)
    state, increment = _numbers(words)
    generator.state = {**generator.state, "state": {"state": state, "inc": increment}}
    np.random.Generator(generator).random(out=out)
    scale, place = words[4:6].view(np.float64).tolist()
    if scale != 1.0:
        out *= scale
    out += place


def is_ready() -> bool:
    """Return whether native code is loaded."""
    return _code.loaded is not None


def _fill(code: _Code, words: np.ndarray, values: np.ndarray) -> None:
    slots = array("q", [values.ctypes.data, words.ctypes.data, distances().ctypes.data])
    address, count = slots.buffer_info()[0], values.size
    threads = thread_count() if count >= SHARED_FROM else 1
    if threads > 1:
        workers().split(code.units, address, count, threads, min(CHUNK, -(-count // (threads * BLOCK)) * BLOCK))
    else:
        code.units.call(address, 0, count)


def launch_with_streams(
    device: Any, function: HostFunction, parallel: tuple[int, ...], slots: array[int], readers: Sequence[Reader]
) -> bool:
    """Run a kernel that reads streams, whose elements are never in memory as a whole.

    Return False if this is not possible. The kernel then has not run.
    """
    most = max(reader.each for reader in readers)
    code = _code.find(sum(reader.count for reader in readers)) if most <= MOST_AT_ONCE else None
    if code is None or not parallel:
        return False
    few = max(1, AT_ONCE // most)
    few = -(-few // function.grain) * function.grain
    shared = function.parallel and max(reader.count for reader in readers) >= SHARED_FROM
    threads = min(thread_count(), MOST_THREADS) if shared else 1
    apart = -(-8 * (few * most + BLOCK) // 64) * 64
    memory = device.allocate(threads * apart * len(readers))
    job = [function.address, len(slots), slots.buffer_info()[0], few, len(readers), memory.address]
    job += [apart * len(readers), 0, distances().ctypes.data, apart]
    for reader in readers:
        job += [reader.argument, reader.each, reader.count, reader.words.ctypes.data]
    given = array("q", job)
    address, extent = given.buffer_info()[0], parallel[0]
    if threads > 1:
        chunk = few * max(1, extent // (few * threads * 16))
        workers().split(code.kernel, address, extent, threads, chunk)
    else:
        code.kernel.call(address, 0, extent)
    return True
