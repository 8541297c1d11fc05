"""A linker of ELF object files for x86-64.

It is written in Python, so that LLVM need not be loaded.

In: a kernel's object file as LLVM writes it, and the address of every external symbol. Out: an `Image` of executable
memory, and the addresses of its functions. Invariant: memory is written before it becomes executable, and never
afterwards. An object file with an unknown feature is rejected (`UnsupportedObjectError`) before any of it is loaded.

The format is that of the System V ABI, AMD64 supplement: sections, symbols, and six kinds of relocations.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_OBJECT, _X86_64 = 1, 62  # kinds of file and machine
_BITS, _SYMBOLS, _RELOCATIONS, _UNWINDING = 1, 2, 4, 0x70000001  # kinds of section
_WRITTEN, _LOADED, _THREAD_LOCAL = 1, 2, 0x400  # flags of a section
_OUTSIDE = 0  # section number of an undefined symbol
# Relocations: an address; a distance; a distance to a function that may be external; distances to a slot that holds an
# address.
_ADDRESS, _DISTANCE, _CALL = 1, 2, 4
_SLOTS = (9, 41, 42)
_JUMP = b"\xff\x25\x00\x00\x00\x00"  # a jump to the address in the following eight bytes
_STUB = 16
_RELOCATED = ".data.rel.ro"


class UnsupportedObjectError(Exception):
    """Raised for object files and relocations that this linker does not support."""


class Section(NamedTuple):
    """A section header of an ELF file, with the fields in the order of the file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """A symbol: its name, the number of its section, and its offset in the section."""

    name: str
    section: int
    value: int


@dataclass(frozen=True, eq=False, repr=False)
class Image:
    """Linked code in memory, and the addresses of its symbols. The memory is freed with this object."""

    memory: mmap.mmap
    symbols: Mapping[str, int]


def link(code: bytes, outside: Mapping[str, int]) -> Image:
    """Link an object file in memory and return the linked image.

    Parameters
    ----------
    code : bytes
        The file.
    outside : mapping of str to int
        The addresses of symbols that are not in the file.

    Raises
    ------
    UnsupportedObjectError
        If the file is damaged or needs a feature that this linker does not support, or if the system does not let
        memory become executable.
    """
    try:
        return _Linker(code, outside).link()
    except struct.error as error:
        raise UnsupportedObjectError(f"a damaged file: {error}") from error


class _Linker:
    """The state of linking one object file.

    In memory, sections come first, then stubs for external functions, then slots.
    """

    def __init__(self, code: bytes, outside: Mapping[str, int]) -> None:
        self.code = code
        self.outside = outside
        magic, kind, machine, _, _, _, start, _, _, _, _, size, count, names = _HEADER.unpack_from(code)
        if magic[:6] != b"\x7fELF\x02\x01" or (kind, machine, size) != (_OBJECT, _X86_64, _SECTION.size):
            raise UnsupportedObjectError("not an object file for x86-64")
        self.sections = [Section(*_SECTION.unpack_from(code, start + k * size)) for k in range(count)]
        self.names = self.sections[names].offset
        self.section_offsets: dict[int, int] = {}  # number of a section -> its offset in the image
        self.symbols = next((self.read_symbols(s) for s in self.sections if s.kind == _SYMBOLS), [])

    def read_symbols(self, table: Section) -> list[Symbol]:
        """Return the symbols of the file, including their names."""
        names = self.sections[table.link].offset
        found = []
        for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
            name, _, _, section, value, _ = _SYMBOL.unpack_from(self.code, at)
            found.append(Symbol(self.read_name(names + name), section, value))
        return found

    def read_name(self, begin: int) -> str:
        return self.code[begin : self.code.index(b"\0", begin)].decode()

    def relocations(self) -> list[tuple[int, int, int, Symbol, int]]:
        """Return the relocations of the loaded sections.

        Each has a section number, an offset, a kind, a symbol and an addend.
        """
        found = []
        for table in self.sections:
            if table.kind != _RELOCATIONS or table.info not in self.section_offsets:
                continue
            for at in range(table.offset, table.offset + table.size, _RELOCATION.size):
                offset, what, addend = _RELOCATION.unpack_from(self.code, at)
                found.append((table.info, offset, what & 0xFFFFFFFF, self.symbols[what >> 32], addend))
        return found

    def link(self) -> Image:
        """Link the object file, and return an image in executable memory."""
        size = self.lay_out()
        relocations = self.relocations()
        called = self.wanted(relocations, (_CALL,))
        slotted = self.wanted(relocations, _SLOTS)
        stubs = {symbol: size + k * _STUB for k, symbol in enumerate(called)}
        size += len(stubs) * _STUB
        slots = {symbol: size + k * 8 for k, symbol in enumerate(slotted)}
        size += len(slots) * 8

        memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for number, at in self.section_offsets.items():
            section = self.sections[number]
            memory[at : at + section.size] = self.code[section.offset : section.offset + section.size]
        for symbol, at in stubs.items():
            memory[at : at + len(_JUMP) + 8] = _JUMP + self.outside[symbol.name].to_bytes(8, "little")
        for symbol, at in slots.items():
            inside = symbol.section != _OUTSIDE
            address = start + self.offset_of(symbol) if inside else self.outside[symbol.name]
            memory[at : at + 8] = address.to_bytes(8, "little")

        for number, offset, kind, symbol, addend in relocations:
            at = self.section_offsets[number] + offset
            if kind in _SLOTS:
                target = slots[symbol]
            elif symbol.section == _OUTSIDE:
                target = stubs[symbol]
            else:
                target = self.offset_of(symbol)
            if kind == _ADDRESS:
                struct.pack_into("<Q", memory, at, (start + target + addend) & (2**64 - 1))
            else:
                struct.pack_into("<i", memory, at, target + addend - at)
        _protect(start, len(memory))
        defined = (s for s in self.symbols if s.name and s.section in self.section_offsets)
        return Image(memory, {s.name: start + self.offset_of(s) for s in defined})

    def lay_out(self) -> int:
        """Assign sections their offsets in the image, and return the offset of the first stub.

        Raises UnsupportedObjectError for sections that the code writes to or that this linker does not support.
        """
        size = 0
        for number, section in enumerate(self.sections):
            # exceptions never pass through this code, so unwind information is not needed
            if not section.flags & _LOADED or not section.size or section.kind == _UNWINDING:
                continue
            # (only the linker writes tables of addresses)
            kept = section.flags & _WRITTEN and not self.read_name(self.names + section.name).startswith(_RELOCATED)
            if kept or section.flags & _THREAD_LOCAL or section.kind != _BITS:
                raise UnsupportedObjectError("it has memory of its own that is written to")
            size = -(-size // max(section.alignment, 1)) * max(section.alignment, 1)
            self.section_offsets[number] = size
            size += section.size
        return -(-size // _STUB) * _STUB

    def wanted(
        self, relocations: Sequence[tuple[int, int, int, Symbol, int]], kinds: Sequence[int]
    ) -> dict[Symbol, None]:
        """Return the symbols for which relocations of the given `kinds` need a stub or a slot.

        Raises UnsupportedObjectError if any relocation is not supported.
        """
        found: dict[Symbol, None] = {}
        for _, _, kind, symbol, _ in relocations:
            inside = symbol.section in self.section_offsets
            if kind not in (_ADDRESS, _DISTANCE, _CALL, *_SLOTS):
                raise UnsupportedObjectError(f"relocation {kind}")
            if not inside and (symbol.section != _OUTSIDE or kind in (_ADDRESS, _DISTANCE)):
                raise UnsupportedObjectError(f"relocation {kind} to {symbol.name or symbol.section}")
            if not inside and symbol.name not in self.outside:
                raise UnsupportedObjectError(f"{symbol.name} is not there")
            if kind in kinds and (not inside or kind in _SLOTS):
                found[symbol] = None
        return found

    def offset_of(self, symbol: Symbol) -> int:
        """Return the offset of `symbol`, which the file defines, from the start of the image."""
        return self.section_offsets[symbol.section] + symbol.value


def _protect(start: int, size: int) -> None:
    """Make the pages of linked code executable and read-only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise UnsupportedObjectError(f"memory cannot be made executable: errno {ctypes.get_errno()}")
