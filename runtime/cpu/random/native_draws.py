"""Compilation and loading of the native code that draws random numbers.

In: the algorithm of a bit generator. Out: native functions, and the tables that they read. Invariant: the code is compiled
for this machine's processor, and calls the functions of the C library that NumPy calls.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu.loader import ENTRY, external_addresses, link_symbols
from weft.runtime.cpu.native import optimized_object
from weft.runtime.cpu.pool import Entry
from weft.runtime.cpu.random.bit_generators import BLOCK, LANES, Engine
from weft.runtime.cpu.random.methods import method_texts
from weft.runtime.llvm_files import read_llvm

# Number of words of a stream in front of its index, and number of words of the index per block.
HEAD, RECORD = 20, 4


class Code(NamedTuple):
    """The native functions for a bit generator.

    `filling` is the address of the function that `kernel` calls for streams of this bit generator.
    """

    fill: Entry
    kernel: Entry
    blocks: Entry
    join: Entry
    finish: Entry
    filling: int
    memory: Any


_ENTRIES = ("weft_draw_range", "weft_drawn_kernel", "weft_index_blocks", "weft_index_join", "weft_index_end")


def obtain_code(engine: Engine, compiling: bool) -> Code | None:
    """Return the native code for a bit generator, or None if it has not been compiled yet.

    With `compiling`, missing code is compiled as `optimized_object` describes.
    """
    sizes = {"LANES": LANES, "BLOCK": BLOCK, "HEAD": HEAD}
    text = read_llvm(__file__, "streams", GENERATOR=engine.text(), **sizes, **method_texts())
    symbols = ("exp", "expf", "expm1", "log", "log1p", "log1pf", "pow")
    code = optimized_object(_ENTRIES[0], text, symbols, compiling)
    if code is None:
        return None
    names = (*_ENTRIES, "weft_fill_range")
    memory, (*addresses, filling) = link_symbols(code.code, external_addresses(code.symbols), names)
    fill, kernel, blocks, join, finish = (Entry(ENTRY(address), address) for address in addresses)
    return Code(fill, kernel, blocks, join, finish, filling, memory)


@cache
def ziggurats() -> np.ndarray:
    """Return NumPy's tables for drawing normal and exponential numbers by the ziggurat method.

    The words of the tables are limits, scale factors and densities, and the limits shifted to the bits of an output that
    contain the position within a layer. The tables in float32 follow.
    """
    tables = np.load(Path(__file__).with_name("ziggurat.npy"))
    shifted = tables[:, :1] << np.array([12, 11], np.uint64).reshape(2, 1, 1)
    return np.concatenate([np.concatenate([tables, shifted], axis=1).reshape(-1), _float32_tables(tables).reshape(-1)])


def _float32_tables(tables: np.ndarray) -> np.ndarray:
    """Return the ziggurat tables for float32, as 64-bit words.

    Except for four numbers, NumPy's float32 tables are its float64 tables, scaled and rounded.
    """
    bits = np.array([52 - 23, 53 - 23]).reshape(2, 1)
    found = np.empty(tables.shape, np.float32)
    limits = np.rint(tables[:, 0] / 2.0**bits).astype(np.uint32)
    found[:, 1] = tables[:, 1].view(np.float64) * 2.0**bits
    found[:, 2] = tables[:, 2].view(np.float64)
    for entry, towards in (((1, 1, 226), 1), ((1, 2, 128), 0), ((1, 2, 154), 1), ((1, 2, 171), 0)):
        found[entry] = np.nextafter(found[entry], np.float32(towards))
    found.view(np.uint32)[:, 0] = limits
    return found.view(np.uint64)
