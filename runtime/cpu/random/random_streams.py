"""Lazy streams of random numbers. A kernel that reads a stream draws the numbers itself, when it needs them.

In: a bit generator, a method and a number of draws. Out: the words of a stream, from which the numbers follow at any
time and in any order, and the generator in the state after the draws. Kernels that read a stream element by element get
its numbers block by block, in memory of their thread. Invariant: native code is used only if it has drawn samples as
NumPy does.

An element of `random` takes one step of the generator, so the state at any element follows from a jump. An element of a
ziggurat takes one step, rarely several, and bounded integers reject words. Streams of these methods have an index,
which holds for each block of steps the state at the block and the first element that begins in it. Threads count the
elements of a block as if an element began at its first step. For ziggurats, this holds for 99 of 100 blocks. The other
blocks are counted again in order.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache, partial
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu.loader import HostFunction
from weft.runtime.cpu.pool import workers
from weft.runtime.cpu.random.bit_generators import BLOCK, LANES, Engine, State, engine_of, engines, generator_at
from weft.runtime.cpu.random.methods import FUNCTION_NAMES, FUNCTIONS, METHODS, NAMES, ZIGGURATS, Drawing
from weft.runtime.cpu.random.native_draws import HEAD, RECORD, Code, obtain_code, ziggurats
from weft.runtime.cpu.random.readiness import Readiness
from weft.runtime.services import address_of
from weft.runtime.settings import thread_count

# Minimum and maximum number of elements of a stream that a kernel reads at a time. (One iteration may read a row.)
AT_ONCE, MOST_AT_ONCE = 1 << 13, 1 << 16
# Maximum number of threads: each bit of a word marks the memory of one thread as used.
MOST_THREADS = 64
# Number of elements per chunk of a job, and the minimum number for which two threads pay off.
CHUNK, SHARED_FROM = 1 << 15, 1 << 15
# Number of blocks per chunk of an index.
BLOCKS = 8
# Number of elements in comparisons with NumPy, so that each layer of a ziggurat gets many elements, and its edges some.
SAMPLE = 20_001
MOST_IN_FRONT = 4  # maximum number of elements in front of a stream
_MASK = (1 << 64) - 1


def draws_as_numpy(engine: Engine, code: Code) -> bool:
    """Return whether native code draws the same samples as NumPy.

    One sample, and the generator's state after it, are compared for each method and each function.
    """
    return all(_is_numpys(engine, code, name) for name in (*METHODS, *FUNCTIONS))


def _is_numpys(engine: Engine, code: Code, name: str) -> bool:
    made: Any = engine.kind
    ours, theirs = made(1), made(1)
    np.random.Generator(theirs).integers(9, dtype=np.int32), np.random.Generator(ours).integers(9, dtype=np.int32)
    scale, loc = 1.0, -0.0
    parameters: Sequence[float] = ()
    method = METHODS[FUNCTIONS[name].method if name in FUNCTIONS else name]
    if name in FUNCTIONS:
        parameters = FUNCTIONS[name].example
    elif method.dtype.kind == "i":  # (every third word is rejected)
        scale, loc = (
            (2 << method.bits) // 3 - 1 if method.bits < 64 else (1 << 64) // 3 * 2,
            -(1 << method.dtype.itemsize * 8 - 1),
        )
    words = _take(code, name, ours, SAMPLE, scale, loc, parameters)
    assert words is not None
    values, expected = np.empty(SAMPLE, method.dtype), np.empty(SAMPLE, method.dtype)
    _fill(code, words, values)
    _draw_by_numpy(expected, words, np.random.Generator(theirs))
    return np.array_equal(values, expected) and str(ours.state) == str(theirs.state)


@cache
def readiness(number: int) -> Readiness[Code]:
    """Return the rule that decides when to load the native code of a bit generator."""
    engine = engines()[number]
    return Readiness(partial(obtain_code, engine), partial(draws_as_numpy, engine))


def take_stream(
    name: str,
    generator: np.random.BitGenerator,
    count: int,
    scale: float = 1.0,
    loc: float = -0.0,
    parameters: Sequence[float] = (),
) -> np.ndarray | None:
    """Return a stream of `count` random numbers, and advance the generator past them.

    The stream is an array of words.

    Parameters
    ----------
    name : str
        A key of `METHODS` or `FUNCTIONS`.
    generator : numpy.random.BitGenerator
    count : int
        Number of draws.
    scale, loc : float or int
        The elements of the stream are ``loc + scale * draw``. (A number plus -0.0 is the number.) Bounded integers
        are those from `loc` to ``loc + scale``.
    parameters : sequence of float
        The parameters of a function, such as the location and the scale of its distribution.

    Returns
    -------
    ndarray of uint64 or None
        The words that `streams.ll` describes. Their number depends only on the method, `count` and, for integers,
        `scale`, except for very few streams. The result is None if NumPy has to draw.
    """
    method = METHODS[FUNCTIONS[name].method if name in FUNCTIONS else name]
    found = engine_of(generator)
    if count < method.least or found is None:
        return None
    code = readiness(found[0]).find(count)
    if code is None and method.number != 0:
        return None
    return _take(code, name, generator, count, scale, loc, parameters)


def _take(
    code: Code | None, name: str, generator: Any, count: int, scale: float, loc: float, parameters: Sequence[float]
) -> np.ndarray | None:
    function = FUNCTIONS.get(name)
    method = METHODS[name if function is None else function.method]
    found = engine_of(generator)
    assert found is not None
    number, engine = found
    with generator.lock:
        begin = engine.load(generator)
        if begin is None:
            return None
        words = _head(method, count, scale, loc)
        if method.reads_halves and begin.half[0]:
            begin = _use_half(generator, begin, engine, method, words)
            if begin is None:
                return None
        words[:4] = begin.state & _MASK, begin.state >> 64, begin.increment & _MASK, begin.increment >> 64
        words[14] = 0 if function is None else function.number
        words[15 : 15 + len(parameters)].view(np.float64)[:] = parameters
        words[18:20] = number, method.dtype.itemsize.bit_length() - 1
        half = begin.half
        if method.number == 0:
            state = engine.jump(begin.state, begin.increment, count)
        else:
            assert code is not None
            words, state, left = _index(code, engine, words, count - int(words[9]))
            half = left if method.reads_halves else half
        engine.store(generator, State(state, begin.increment, half))
    return words


def _head(method: Drawing, count: int, scale: float, loc: float) -> np.ndarray:
    """Return a new random stream as an array of 64-bit words. In the head of the array, the caller sets the state, function and bit generator."""
    threshold = 0
    if method.dtype.kind == "i":
        threshold = (1 << method.bits) % (int(scale) + 1)
    elif method == METHODS["positive"]:
        threshold = 1
    steps = count * method.steps / (1.0 - threshold / 2.0**method.bits)
    blocks = 0 if method.number == 0 else int((steps + 6 * sqrt(count)) / BLOCK) + 2
    words = np.zeros(HEAD + RECORD * blocks, np.uint64)
    if method.dtype.kind == "i":
        words[4:6] = int(scale), int(loc) & _MASK
    else:
        words[4:6].view(np.float64)[:] = scale, loc
    words[6:9] = method.number, blocks, threshold
    return words


def _use_half(generator: Any, begin: State, engine: Engine, method: Drawing, words: np.ndarray) -> State | None:
    """Start a random stream with the numbers from the unused half of the generator's last output.

    A ziggurat may read more than one half for a number. Numbers are then prepended until no half is unused. Return the
    state of the generator after the numbers. If a half is still unused after `MOST_IN_FRONT` numbers, return None and
    leave the generator unchanged.
    """
    name = NAMES[method.number]
    if name not in ZIGGURATS:
        _read_half(method, words, begin.half[1])
        return begin._replace(half=(0, begin.half[1]))
    draw, before = getattr(np.random.Generator(generator), name.split()[0]), generator.state
    for front in range(MOST_IN_FRONT):
        words[10 + front : 11 + front].view(np.float32)[0] = draw(dtype=np.float32)
        found = engine.load(generator)
        if found is not None and not found.half[0]:
            words[9] = front + 1
            return found
    generator.state = before
    return None


def _read_half(method: Drawing, words: np.ndarray, half: int) -> None:
    """Draw the first elements of a random stream, `words`, from `half`, the unused 32 bits of the generator's last output."""
    most, loc, threshold = (int(words[k]) for k in (4, 5, 8))
    front = 0
    for k in range(32 // method.bits):
        word = half >> k * method.bits & (1 << method.bits) - 1
        at = words[10 + front : 11 + front]
        if method.dtype.kind == "f":
            at.view(np.float32)[0] = np.float32(word >> 8) * np.float32(2**-24)
        else:
            product = word * (most + 1)
            if product & (1 << method.bits) - 1 < threshold:
                continue
            at[0] = (product >> method.bits) + loc & _MASK
        front += 1
    words[9] = front


def _index(code: Code, engine: Engine, words: np.ndarray, count: int) -> tuple[np.ndarray, int, tuple[int, int]]:
    """Compute the index of a random stream.

    Return the stream's words, the state after its elements, and the unused half of the last output.
    """
    tables = address_of(ziggurats()), address_of(engine.distances)
    slots = array("q", [0, address_of(words), *tables, 0, 0, 0, 0])
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
        more = int((count - slots[4]) / BLOCK) + 2  # (the index rarely has too few blocks)
        words = np.append(words, np.zeros(RECORD * more, np.uint64))
        begin, blocks = blocks, blocks + more
        words[7] = blocks
        slots[1] = address_of(words)
    code.finish.call(address, 0, count + int(words[9]))
    low, high = (word & _MASK for word in slots[4:6])
    return words, high << 64 | low, (slots[6], slots[7])


def fill_from_stream(out: np.ndarray, words: np.ndarray) -> None:
    """Write the elements of a random stream to a C-contiguous array."""
    least = METHODS[NAMES[int(words[6])]].least
    code = readiness(int(words[18])).find(out.size) if out.size >= least else None
    if code is not None:
        _fill(code, words, out)
    else:
        _fill_by_numpy(out, words)


def _fill_by_numpy(out: np.ndarray, words: np.ndarray) -> None:
    a, b, c, d = words[:4].tolist()
    generator = generator_at(engines()[int(words[18])], State(b << 64 | a, d << 64 | c, (0, 0)))
    method, front = METHODS[NAMES[int(words[6])]], int(words[9])
    numbers = out.reshape(-1).view(method.dtype)[: out.size]
    numbers[:front] = words[10 : 10 + front].reshape(front, 1).view(method.dtype)[:, 0]
    _draw_by_numpy(numbers[front:], words, np.random.Generator(generator))


def _draw_by_numpy(out: np.ndarray, words: np.ndarray, numpys: np.random.Generator) -> None:
    """Fill an array with the elements of a random stream, using NumPy's own method."""
    name = NAMES[int(words[6])]
    method = METHODS[name]
    if method.dtype.kind == "i":
        most, loc = int(words[4]), int(words[5:6].view(np.int64)[0])
        if method.bits == 8 * method.dtype.itemsize:  # (these are the integers from 0 on, plus `loc` modulo 2**bits)
            unsigned = np.dtype(f"u{method.dtype.itemsize}")
            drawn = numpys.integers(0, most, out.size, unsigned, endpoint=True)
            out.view(unsigned)[:] = drawn + np.array(loc, method.dtype).view(unsigned)
        else:
            out[:] = numpys.integers(0, most, out.size, endpoint=True)
            out += loc
        return
    if method.dtype == np.float32:
        getattr(numpys, name.split()[0])(out=out, dtype=np.float32)
        return
    scale, loc = words[4:6].view(np.float64).tolist()
    parameters = words[15:18].view(np.float64).tolist()
    if (function := FUNCTION_NAMES.get(int(words[14]))) is not None:
        given = parameters[: len(FUNCTIONS[function].example)]
        options = {"mean": loc, "sigma": scale} if function == "lognormal" else {}
        out[...] = getattr(numpys, function)(*given, size=out.shape, **options)
        return
    if name == "positive":
        out[...] = numpys.random(out.shape)
        return
    getattr(numpys, name)(out=out)
    if scale != 1.0:
        out *= scale
    out += loc


def is_ready() -> bool:
    """Return whether the native code of any bit generator has been loaded."""
    return any(readiness(k).loaded is not None for k in range(len(engines())))


def _fill(code: Code, words: np.ndarray, values: np.ndarray) -> None:
    tables = address_of(ziggurats()), address_of(engines()[int(words[18])].distances)
    slots = array("q", [address_of(values), address_of(words), *tables])
    address, count = slots.buffer_info()[0], values.size
    threads = thread_count() if count >= SHARED_FROM else 1
    if threads > 1:
        workers().split(code.fill, address, count, threads, min(CHUNK, -(-count // (threads * BLOCK)) * BLOCK))
    else:
        code.fill.call(address, 0, count)


class StreamOperand(NamedTuple):
    """A random stream that a kernel reads.

    `argument` is the number of the kernel's argument, and `words` are the words of the stream. The kernel reads `each`
    elements per iteration, and `size` elements in total.
    """

    argument: int
    words: np.ndarray
    each: int
    size: int


def launch_with_streams(
    device: Any, function: HostFunction, parallel: tuple[int, ...], slots: array[int], readers: Sequence[StreamOperand]
) -> bool:
    """Run a kernel that reads random streams.

    The numbers are drawn block by block, and are never stored as a whole array. Return False if the kernel cannot run
    in this way.
    """
    most = max(reader.each for reader in readers)
    if most > MOST_AT_ONCE or not parallel:
        return False
    total = sum(reader.size for reader in readers)
    codes = [readiness(int(reader.words[18])).find(total) for reader in readers]
    code = codes[0]
    few = -(-max(1, AT_ONCE // most) // function.grain) * function.grain
    shared = function.parallel and max(reader.size for reader in readers) >= SHARED_FROM
    threads = min(thread_count(), MOST_THREADS) if shared else 1
    apart = -(-8 * (BLOCK + few * most + LANES) // 64) * 64
    streams: list[int] = []
    for reader, own in zip(readers, codes, strict=True):
        if own is None:
            return False
        tables = engines()[int(reader.words[18])].distances
        streams += [
            reader.argument,
            reader.each,
            reader.size,
            address_of(reader.words),
            own.filling,
            address_of(tables),
        ]
    assert code is not None
    memory = device.allocate(threads * apart * len(readers))
    job = [function.address, len(slots), slots.buffer_info()[0], few, len(readers), memory.address]
    job += [apart * len(readers), 0, apart, address_of(ziggurats())]
    given = array("q", [*job, *streams])
    address, extent = given.buffer_info()[0], parallel[0]
    if threads > 1:
        workers().split(code.kernel, address, extent, threads, few * max(1, extent // (few * threads * 16)))
    else:
        code.kernel.call(address, 0, extent)
    return True
