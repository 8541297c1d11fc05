"""Streams: random numbers that are drawn where they are read.

In: a PCG64 generator, a method and a number of draws. Out: the words of a stream, from which the numbers follow at any
time and in any order, and the generator in the state after the draws. Kernels that read a stream element by element get
its numbers block by block, in memory of their thread. Invariant: native code is used only if it has drawn samples as
NumPy does.

An element of `random` takes one step of the generator, so the state at any element follows from a jump. An element of a
ziggurat takes one step, or seldom several. Its stream has an index: for each block of steps, the state at the block, and
the first element that begins in it. Threads count the elements of blocks as if one began at the first step. This holds
for 99 of 100 blocks. The other blocks are counted again in order.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu.loader import ENTRY, HostFunction, external_addresses, link_symbols
from weft.runtime.cpu.native import optimised_object
from weft.runtime.cpu.pool import Entry, workers
from weft.runtime.cpu.random.pcg64 import (
    BLOCK,
    LANES,
    distances,
    half_of,
    has_known_layout,
    jump,
    output,
    pcg64_text,
    state_address,
)
from weft.runtime.cpu.random.readiness import Readiness
from weft.runtime.llvm_files import read_llvm
from weft.runtime.settings import thread_count


class Drawing(NamedTuple):
    """A method that draws standard numbers.

    Its number in native code, the average number of steps per element, and the number of elements that native code draws
    in less time than NumPy's loop.
    """

    number: int
    steps: float
    least: int


METHODS = {
    "random": Drawing(0, 1.0, 1 << 13),
    "standard_normal": Drawing(1, 1.0216, 1 << 12),
    "standard_exponential": Drawing(2, 1.0337, 1 << 13),
    "integers": Drawing(3, 0.5, 1 << 13),
    "random float32": Drawing(4, 0.5, 1 << 13),
}
# Numbers of methods, and the methods whose streams have an index.
INTEGERS, FLOATS = 3, 4
_INDEXED = frozenset({1, 2, INTEGERS})
_NAMES = {method.number: name for name, method in METHODS.items()}

# Functions of the numbers of a method: their number in native code, and the method.
FUNCTIONS = {
    "lognormal": (1, "standard_normal"),
    "weibull": (2, "standard_exponential"),
    "pareto": (3, "standard_exponential"),
    "power": (4, "standard_exponential"),
    "rayleigh": (5, "standard_exponential"),
}
_FUNCTION_NAMES = {number: name for name, (number, _) in FUNCTIONS.items()}

# Words of a stream in front of its index, and words of the index per block.
HEAD, RECORD = 16, 4
MOST_IN_FRONT = 4  # number of integers in front of a stream
# Number of elements of a stream that a kernel reads at a time, at least and at most: in one iteration, it may read a row.
AT_ONCE, MOST_AT_ONCE = 1 << 13, 1 << 16
# Number of threads whose memory the bits of a word can mark as used.
MOST_THREADS = 64
# Number of elements per chunk of a job, and the number from which on two threads pay.
CHUNK, SHARED_FROM = 1 << 15, 1 << 15
# Number of blocks per chunk of an index.
BLOCKS = 8
# Number of elements for the comparison with NumPy: each layer of a ziggurat gets many of them, and its edges some.
SAMPLE = 20_001
_MASK = (1 << 64) - 1


class _Code(NamedTuple):
    """Native functions, and the object that keeps their code alive."""

    fill: Entry
    kernel: Entry
    blocks: Entry
    join: Entry
    finish: Entry
    memory: Any


_ENTRIES = ("weft_draw_range", "weft_drawn_kernel", "weft_index_blocks", "weft_index_join", "weft_index_end")
# Starts of the tails (3.654 and 7.697) and the negative inverse of the first, in LLVM's exact notation for floats.
_NORMAL = {"START": "0x400D3BB48209AD33", "NEGATIVE_INVERSE": "0xBFD183AA6C20E8C1"}
_EXPONENTIAL = {"START": "0x401EC9D9297EBB83"}


def _ziggurat(name: str, constants: dict[str, str]) -> str:
    layer = read_llvm(__file__, f"layer_{name}", NAME=name, **constants)
    return read_llvm(__file__, "ziggurat", NAME=name, LAYER=layer, BLOCK=BLOCK, HEAD=HEAD)


def _obtain(compiling: bool) -> _Code | None:
    ziggurats = _ziggurat("normal", _NORMAL) + _ziggurat("exponential", _EXPONENTIAL)
    common = {"LANES": LANES, "BLOCK": BLOCK, "HEAD": HEAD}
    order = ", ".join(f"i32 {k // 2 + k % 2 * LANES}" for k in range(2 * LANES))
    halves: dict[str, int | str] = {"HALVES": 2 * BLOCK, "PAIRS": 2 * LANES, "ALTERNATING": f"<{order}>"}
    integers = read_llvm(__file__, "integers", **common, **halves)
    del halves["ALTERNATING"]
    floats = read_llvm(__file__, "halves", BLOCK=BLOCK, **halves)
    text = read_llvm(
        __file__, "streams", PCG64=pcg64_text(), ZIGGURATS=ziggurats, INTEGERS=integers, FLOATS=floats, **common
    )
    code = optimised_object(_ENTRIES[0], text, ("exp", "expm1", "log1p", "pow"), compiling, own=True)
    if code is None:
        return None
    memory, addresses = link_symbols(code.code, external_addresses(code.symbols), _ENTRIES)
    fill, kernel, blocks, join, finish = (Entry(ENTRY(address), address) for address in addresses)
    return _Code(fill, kernel, blocks, join, finish, memory)


@cache
def _ziggurats() -> np.ndarray:
    """Return NumPy's tables of the normal and the exponential ziggurat.

    Their words are limits, units and densities, and the limits shifted to the place's position in an output.
    """
    tables = np.load(Path(__file__).with_name("ziggurat.npy"))
    shifted = tables[:, :1] << np.array([12, 11], np.uint64).reshape(2, 1, 1)
    return np.concatenate([tables, shifted], axis=1)


def _draws_as_numpy(code: _Code) -> bool:
    return all(_is_numpys(code, name) for name in METHODS) and all(_computes_as_numpy(code, name) for name in FUNCTIONS)


def _computes_as_numpy(code: _Code, name: str) -> bool:
    """Return whether a function of native code has the same results as NumPy's method."""
    number, method = FUNCTIONS[name]
    words = _take(code, METHODS[method], np.random.PCG64(1), SAMPLE, 1.0, -0.0)
    assert words is not None
    _set_function(words, number, 1.75)
    values = np.empty(SAMPLE)
    _fill(code, words, values)
    given = () if name == "lognormal" else (1.75,)
    options: dict[str, Any] = {"size": SAMPLE}
    return np.array_equal(values, getattr(np.random.Generator(np.random.PCG64(1)), name)(*given, **options))


def _set_function(words: np.ndarray, number: int, parameter: float) -> None:
    words[14] = number
    words[15:16].view(np.float64)[0] = parameter


def _is_numpys(code: _Code, name: str) -> bool:
    """Return whether native code draws the same sample as NumPy. The generator must also end in the same state."""
    ours, theirs = np.random.PCG64(1), np.random.PCG64(1)
    other = np.random.Generator(theirs)
    if name == "integers":
        size, place = 3_000_000_001, -7  # (every third half is rejected)
        expected: Any = other.integers(place, place + size, SAMPLE)
    elif name == "random float32":
        size, place = 1.0, 0.0  # type: ignore[assignment]
        expected = other.random(SAMPLE, np.float32)
    else:
        size, place = 1.5, 0.25  # type: ignore[assignment]
        expected = place + size * getattr(other, name)(SAMPLE)
    words = _take(code, METHODS[name], ours, SAMPLE, size, place)
    assert words is not None
    values = np.empty(SAMPLE, expected.dtype)
    _fill(code, words, values)
    return np.array_equal(values, expected) and ours.state == theirs.state


_code = Readiness(_obtain, _draws_as_numpy)


def take_stream(
    name: str, generator: Any, count: int, scale: float = 1.0, place: float = -0.0, parameter: float = 0.0
) -> np.ndarray | None:
    """Return the words of a stream, and advance the generator.

    Parameters
    ----------
    name : str
        A key of `METHODS` or `FUNCTIONS`.
    generator : numpy.random.BitGenerator
    count : int
        Number of draws.
    scale, place : float or int
        The elements of the stream are ``place + scale * draw``. (A number plus -0.0 is the number.) Bounded integers
        are the `scale` integers from `place` on.
    parameter : float
        The parameter of a function: the shape or the scale of its distribution.

    Returns
    -------
    ndarray of uint64 or None
        The state and the increment, each with its low word first, the bits of `scale` and `place`, the number of the
        method, the number of blocks of the index, words of bounded integers, the number of the function and the bits of
        its parameter, and the index. The length depends only on the method and `count`, but for very few streams. None
        if NumPy has to draw.
    """
    number, base = FUNCTIONS.get(name, (0, name))
    method = METHODS[base]
    if count < method.least or type(generator) is not np.random.PCG64 or not has_known_layout():
        return None
    code = _code.find(count)
    if code is None and method.number in _INDEXED:
        return None
    words = _take(code, method, generator, count, scale, place)
    if words is not None:
        _set_function(words, number, parameter)
    return words


def _take(
    code: _Code | None, method: Drawing, generator: Any, count: int, scale: float, place: float
) -> np.ndarray | None:
    steps = method.steps / (1.0 - (1 << 32) % int(scale) / 2**32 if method.number == INTEGERS else 1.0)
    blocks = 0 if method.number not in _INDEXED else int((count * steps + 6 * sqrt(count)) / BLOCK) + 2
    words = np.zeros(HEAD + RECORD * blocks, np.uint64)
    words[4:6].view(np.int64 if method.number == INTEGERS else np.float64)[:] = scale, place
    words[6:8] = method.number, blocks
    half = (0, 0)
    address = state_address(generator)
    with generator.lock:
        if method.number == INTEGERS:
            words[8] = (1 << 32) % scale
            if not _use_half(generator, words, int(scale), int(place)):
                return None
        words[:4].view(np.uint8)[:] = np.frombuffer(ctypes.string_at(address, 32), np.uint8)
        if method.number in _INDEXED:
            assert code is not None
            words, state, half = _index(code, words, count - int(words[9]))
        elif method.number == FLOATS:
            _take_half(generator, words)
            steps, odd = divmod(count - int(words[9]) + 1, 2)
            state = jump(*_numbers(words), steps)
            half = 1 - odd, output(state) >> 32
        else:
            state = jump(*_numbers(words), count)
        ctypes.memmove(address, state.to_bytes(16, "little"), 16)
        if method.number in (INTEGERS, FLOATS):
            half_of(generator)[:] = half
    return words


def _use_half(generator: Any, words: np.ndarray, size: int, place: int) -> bool:
    """Let NumPy draw numbers until no half of a step is left. These numbers are in front of the stream.

    Return False if too many halves were rejected. The generator is then unchanged.
    """
    numpys, front, before = np.random.Generator(generator), 0, generator.state
    while half_of(generator)[0]:
        if front == MOST_IN_FRONT:
            generator.state = before
            return False
        words.view(np.int64)[10 + front] = numpys.integers(place, place + size)
        front += 1
    words[9] = front
    return True


def _take_half(generator: Any, words: np.ndarray) -> None:
    """Use half of a step that is left. Its number is in front of the stream."""
    left, half = half_of(generator)
    if left:
        words[9] = 1
        words[10:11].view(np.float32)[0] = np.float32(half >> 8) * np.float32(2**-24)


def _numbers(words: np.ndarray) -> tuple[int, int]:
    """Return the state and the increment of a stream."""
    a, b, c, d = words[:4].tolist()
    return b << 64 | a, d << 64 | c


def _index(code: _Code, words: np.ndarray, count: int) -> tuple[np.ndarray, int, tuple[int, int]]:
    """Write the index of a stream.

    Return the stream's words, the state behind its elements, and the half of a step that is left.
    """
    slots = array("q", [0, words.ctypes.data, _ziggurats().ctypes.data, distances().ctypes.data, 0, 0, 0, 0])
    begin, blocks = 0, int(words[7])
    while True:
        address = slots.buffer_info()[0]
        threads = thread_count() if count >= SHARED_FROM else 1
        if threads > 1 and begin == 0:
            workers().split(code.blocks, address, blocks, threads, BLOCKS)
        else:
            code.blocks.call(address, begin, blocks)
        code.join.call(address, begin, blocks)
        if slots[4] >= count:
            break
        more = int((count - slots[4]) / BLOCK) + 2  # (the index has seldom too few blocks)
        words = np.append(words, np.zeros(RECORD * more, np.uint64))
        begin, blocks = blocks, blocks + more
        words[7] = blocks
        slots[1] = words.ctypes.data
    code.finish.call(address, 0, count + int(words[9]))
    low, high = (word & _MASK for word in slots[4:6])
    return words, high << 64 | low, (slots[6], slots[7])


def fill_from_stream(out: np.ndarray, words: np.ndarray) -> None:
    """Write the elements of a stream to a C-contiguous array."""
    method = METHODS[_NAMES[int(words[6])]]
    code = _code.find(out.size) if out.size >= method.least else None
    if code is not None:
        _fill(code, words, out)
    else:
        _fill_by_numpy(out, words)


def _fill_by_numpy(out: np.ndarray, words: np.ndarray) -> None:
    generator = np.random.PCG64(0)
    state, increment = _numbers(words)
    generator.state = {**generator.state, "state": {"state": state, "inc": increment}}
    numpys = np.random.Generator(generator)
    name = _NAMES[int(words[6])]
    if name == "integers":
        front, (size, place) = int(words[9]), words[4:6].view(np.int64).tolist()
        numbers = out.reshape(-1).view(np.int64)
        numbers[:front] = words.view(np.int64)[10 : 10 + front]
        numbers[front:] = numpys.integers(place, place + size, numbers.size - front)
        return
    if name == "random float32":
        front, shorts = int(words[9]), out.reshape(-1).view(np.float32)[: out.size]
        shorts[:front] = words[10:11].view(np.float32)[:front]
        shorts[front:] = numpys.random(shorts.size - front, np.float32)
        return
    scale, place, parameter = words[[4, 5, 15]].view(np.float64).tolist()
    if (function := _FUNCTION_NAMES.get(int(words[14]))) is not None:
        given = {"mean": place, "sigma": scale} if function == "lognormal" else {}
        shape = () if function == "lognormal" else (parameter,)
        out[...] = getattr(numpys, function)(*shape, size=out.shape, **given)
        return
    getattr(numpys, name)(out=out)
    if scale != 1.0:
        out *= scale
    out += place


def is_ready() -> bool:
    """Return whether native code is loaded."""
    return _code.loaded is not None


def _fill(code: _Code, words: np.ndarray, values: np.ndarray) -> None:
    slots = array("q", [values.ctypes.data, words.ctypes.data, _ziggurats().ctypes.data, distances().ctypes.data])
    address, count = slots.buffer_info()[0], values.size
    threads = thread_count() if count >= SHARED_FROM else 1
    if threads > 1:
        workers().split(code.fill, address, count, threads, min(CHUNK, -(-count // (threads * BLOCK)) * BLOCK))
    else:
        code.fill.call(address, 0, count)


class Reader(NamedTuple):
    """A stream that a kernel reads: its argument, its words, the elements per iteration, and the number of elements."""

    argument: int
    words: np.ndarray
    each: int
    size: int


def launch_with_streams(
    device: Any, function: HostFunction, parallel: tuple[int, ...], slots: array[int], readers: Sequence[Reader]
) -> bool:
    """Run a kernel that reads streams, whose elements are never in memory as a whole.

    Return False if this is not possible. The kernel then has not run.
    """
    most = max(reader.each for reader in readers)
    code = _code.find(sum(reader.size for reader in readers)) if most <= MOST_AT_ONCE else None
    if code is None or not parallel:
        return False
    few = -(-max(1, AT_ONCE // most) // function.grain) * function.grain
    shared = function.parallel and max(reader.size for reader in readers) >= SHARED_FROM
    threads = min(thread_count(), MOST_THREADS) if shared else 1
    apart = -(-8 * (BLOCK + few * most + LANES) // 64) * 64
    memory = device.allocate(threads * apart * len(readers))
    job = [function.address, len(slots), slots.buffer_info()[0], few, len(readers), memory.address]
    job += [apart * len(readers), 0, distances().ctypes.data, apart, _ziggurats().ctypes.data]
    for reader in readers:
        job += [reader.argument, reader.each, reader.size, reader.words.ctypes.data]
    given = array("q", job)
    address, extent = given.buffer_info()[0], parallel[0]
    if threads > 1:
        workers().split(code.kernel, address, extent, threads, few * max(1, extent // (few * threads * 16)))
    else:
        code.kernel.call(address, 0, extent)
    return True
