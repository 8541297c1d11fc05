"""A shared library libcuda.so.1, through which cuda.bindings uses the stand-in.

In: an address for `cuGetProcAddress`. Out: a file, loaded into this process. Invariant: neither a compiler nor a linker
is used. The file contains two jumps through a word that is set after loading. The library cannot be unloaded, so tests
that load it run in a separate process.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from pathlib import Path

from tests.stand_in.driver import StandIn

NAME = "libcuda.so.1"
EXPORTS = ("cuGetProcAddress_v2", "cuGetProcAddress")
SLOT = "stand_in_find"
PAGE = 0x1000
MACHINES = {"x86_64": 62, "aarch64": 183}
_SYMBOL = struct.Struct("<IBBHQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
LOAD, DYNAMIC, STACK = 1, 2, 0x6474E551
SONAME, HASH, STRINGS, SYMBOLS, STRINGS_SIZE, SYMBOL_SIZE = 14, 4, 5, 6, 10, 11


def _jump(machine: str, at: int, slot: int) -> bytes:
    """Return the machine code of a jump. The code is placed at address `at`, and reads the jump's target from address `slot`."""
    if machine == "x86_64":
        return b"\xff\x25" + struct.pack("<i", slot - at - 6)
    return struct.pack("<II", 0x58000010 | (slot - at) // 4 << 5, 0xD61F0200)  # ldr x16, slot; br x16


def library_bytes(machine: str) -> bytes:
    """Return the contents of the library file.

    Headers, symbols and jumps are in the first page, and the jump target and the dynamic section in the second page.
    """
    names = ("", *EXPORTS, SLOT, NAME)
    strings, offsets = b"", []
    for name in names:
        offsets.append(len(strings))
        strings += name.encode() + b"\0"
    count = len(EXPORTS) + 2
    symbols_at = _HEADER.size + 4 * _SEGMENT.size
    strings_at = symbols_at + count * _SYMBOL.size
    hash_at = -(-(strings_at + len(strings)) // 8) * 8
    # one hash bucket, in which each symbol follows the previous symbol
    table = struct.pack(f"<III{count}I", 1, count, 1, *(0, *range(2, count), 0))
    code_at = -(-(hash_at + len(table)) // 16) * 16
    symbols = _SYMBOL.pack(0, 0, 0, 0, 0, 0)
    for k in range(len(EXPORTS)):
        symbols += _SYMBOL.pack(offsets[1 + k], 0x12, 0, 1, code_at + 16 * k, 8)  # a global function
    symbols += _SYMBOL.pack(offsets[count - 1], 0x11, 0, 2, PAGE, 8)  # a global object
    code = b"".join(_jump(machine, code_at + 16 * k, PAGE).ljust(16, b"\0") for k in range(len(EXPORTS)))
    end = code_at + len(code)
    entries = (
        (SONAME, offsets[-1]),
        (HASH, hash_at),
        (STRINGS, strings_at),
        (SYMBOLS, symbols_at),
        (STRINGS_SIZE, len(strings)),
        (SYMBOL_SIZE, _SYMBOL.size),
        (0, 0),
    )
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    data = bytes(8) + bytes(8) + dynamic
    header = _HEADER.pack(
        b"\x7fELF\x02\x01\x01".ljust(16, b"\0"), 3, MACHINES[machine], 1, 0, _HEADER.size, 0, 0, 64, 56, 4, 64, 0, 0
    )
    segments = (
        _SEGMENT.pack(LOAD, 5, 0, 0, 0, end, end, PAGE),
        _SEGMENT.pack(LOAD, 6, PAGE, PAGE, PAGE, len(data), len(data), PAGE),
        _SEGMENT.pack(DYNAMIC, 6, PAGE + 16, PAGE + 16, PAGE + 16, len(dynamic), len(dynamic), 8),
        _SEGMENT.pack(STACK, 6, 0, 0, 0, 0, 0, 16),
    )
    page = header + b"".join(segments) + symbols + strings
    page = page.ljust(hash_at, b"\0") + table
    return (page.ljust(code_at, b"\0") + code).ljust(PAGE, b"\0") + data


def load_library(folder: Path, stand_in: StandIn) -> None:
    """Load the stand-in as the libcuda.so.1 of this process."""
    path = folder / NAME
    path.write_bytes(library_bytes(platform.machine()))
    library = ctypes.CDLL(str(path), os.RTLD_NOW | os.RTLD_GLOBAL)
    ctypes.c_void_p.in_dll(library, SLOT).value = stand_in.native.addresses["cuGetProcAddress"]
