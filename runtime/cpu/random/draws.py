"""Normal and exponential numbers from NumPy's PCG64 generators, by native code on all threads.

In: a bit generator, a method and an array. Out: the array, filled with the same bits as by NumPy's method, and the
generator in the state that the method leaves. Invariant: native code is used only if it has drawn a sample as NumPy
does.

The stream is cut into blocks. A thread computes the state of the generator at a block by a jump, and draws as if an
element began there. This holds for 99 of 100 blocks, since most elements take one step of the generator. The other
blocks are drawn again in order.
"""

from __future__ import annotations

from array import array
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu.loader import ENTRY, external_addresses, link_symbols
from weft.runtime.cpu.native import optimised_object
from weft.runtime.cpu.pool import Entry, workers
from weft.runtime.cpu.random.pcg64 import BLOCK as STEPS
from weft.runtime.cpu.random.pcg64 import distances, has_known_layout, pcg64_text, state_address
from weft.runtime.cpu.random.readiness import Readiness
from weft.runtime.llvm_files import read_llvm
from weft.runtime.settings import thread_count

# Number of elements of a block, which one thread draws: enough for a thread to pay, and few enough for its cache.
BLOCK, LEAST_BLOCK = 1 << 14, 1 << 12
# Blocks per thread of a job: other threads take over the blocks of a delayed thread.
SHARES = 2
# Number of elements for the comparison with NumPy: each layer of a ziggurat gets many of them, and its edges some.
SAMPLE = 1 << 14

_ENDLESS = (1 << 63) - 1
_SYMBOLS = ("exp", "log1p")
_BLOCKS, _JOIN, _MORE = "weft_draw_blocks", "weft_draw_join", "weft_draw_more"


class Drawing(NamedTuple):
    """A method of `numpy.random.Generator` that native code implements.

    The fields are its name, the file of its layers with its constants, and the index of its ziggurat.

    Native code draws `least` elements in less time than NumPy's loop.
    """

    name: str
    layer: str
    constants: dict[str, str]
    ziggurat: int
    least: int


# Starts of the tails (3.654 and 7.697) and the negative inverse of the first, in LLVM's exact notation for floats.
_NORMAL = {"START": "0x400D3BB48209AD33", "NEGATIVE_INVERSE": "0xBFD183AA6C20E8C1"}
_EXPONENTIAL = {"START": "0x401EC9D9297EBB83"}
METHODS = {
    "standard_normal": Drawing("standard_normal", "layer_normal", _NORMAL, 0, 1 << 11),
    "standard_exponential": Drawing("standard_exponential", "layer_exponential", _EXPONENTIAL, 1, 1 << 12),
}


class _Code(NamedTuple):
    """The native functions of a method, the object that keeps their code alive, and the address of their tables."""

    blocks: Entry
    join: Entry
    more: Entry
    memory: Any
    tables: int


def fill_with_draws(method: str, generator: Any, values: np.ndarray, scale: float = 1.0, place: float = -0.0) -> bool:
    """Fill an array as a method of `numpy.random.Generator` does, if native code is faster.

    Return whether the array was filled.

    Parameters
    ----------
    method : str
        A key of `METHODS`.
    generator : numpy.random.BitGenerator
    values : ndarray of float64
        C-contiguous. Its elements are ``place + scale * draw``. (A number plus -0.0 is the number.)
    scale, place : float

    Returns
    -------
    bool
        False if NumPy has to draw. The generator is then unchanged.
    """
    if values.size < METHODS[method].least or type(generator) is not np.random.PCG64 or not has_known_layout():
        return False
    code = READY[method].find(values.size)
    if code is None:
        return False
    with generator.lock:
        _draw(code, state_address(generator), values, scale, place)
    return True


def _draw(code: _Code, state: int, values: np.ndarray, scale: float, place: float) -> None:
    threads = thread_count()
    blocks = threads * SHARES
    reports = array("q", bytes(32 * blocks))
    slots = array("q", [0, 0, state, reports.buffer_info()[0], code.tables, 0, 0, 0, distances().ctypes.data])
    memoryview(slots).cast("B").cast("d")[5:7] = array("d", [scale, place])
    address, begin, left = slots.buffer_info()[0], values.ctypes.data, values.size
    while left:
        slots[0] = begin + 8 * (values.size - left)
        length = min(BLOCK, left // blocks)
        if threads > 1 and length >= LEAST_BLOCK:
            slots[1] = length
            workers().split(code.blocks, address, blocks, threads, 1)
            code.join.call(address, 0, blocks)
            left -= slots[7]
        else:
            most = min(left, blocks * BLOCK)
            code.more.call(address, 0, most)
            left -= most


def _obtain(method: Drawing, compiling: bool) -> _Code | None:
    """Return the linked native code of a method, or None if it is not compiled yet."""
    names = (_BLOCKS, _JOIN, _MORE)
    layer = read_llvm(__file__, method.layer, **method.constants)
    sampler = read_llvm(__file__, "sample_ziggurat", LAYER=layer)
    text = read_llvm(__file__, "draws", PCG64=pcg64_text("store_bits"), SAMPLE=sampler, ENDLESS=_ENDLESS, BLOCK=STEPS)
    code = optimised_object(_BLOCKS, text, _SYMBOLS, compiling, own=True)
    if code is None:
        return None
    memory, addresses = link_symbols(code.code, external_addresses(code.symbols), names)
    blocks, join, more = (Entry(ENTRY(address), address) for address in addresses)
    return _Code(blocks, join, more, memory, _ziggurats()[method.ziggurat].ctypes.data)


@cache
def _ziggurats() -> np.ndarray:
    """Return NumPy's tables of the normal and the exponential ziggurat.

    Their words are limits, units and densities.
    """
    return np.load(Path(__file__).with_name("ziggurat.npy"))


def _draws_as_numpy(method: Drawing, code: _Code) -> bool:
    """Return whether a method's native code draws the same sample as NumPy.

    The generator must also end in the same state.
    """
    ours, theirs = np.random.PCG64(1), np.random.PCG64(1)
    values = np.empty(SAMPLE)
    _draw(code, state_address(ours), values, 1.5, 0.25)
    expected = getattr(np.random.Generator(theirs), method.name)(SAMPLE)
    return np.array_equal(values, 0.25 + 1.5 * expected) and ours.state == theirs.state


READY = {
    name: Readiness(partial(_obtain, method), partial(_draws_as_numpy, method)) for name, method in METHODS.items()
}
