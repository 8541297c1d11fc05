"""PTX instructions for bit operations.

Each thread executes them independently. Each method returns the step that executes an instruction. Source: NVIDIA,
Parallel Thread Execution ISA 9.0, sections 9.7.1 and 9.7.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.stand_in.ptx.machine import Grid, Lanes, Step
from tests.stand_in.ptx.operands import TYPES, Operands


class Bits(Operands):
    """Instructions for logic, shifts, bit fields and counts."""

    def _bits(self, work: Callable[..., Any], logical: Callable[..., Any], count: int = 2) -> Step:
        return self.same(logical if self.kind == "pred" else work, count)

    def _and(self) -> Step:
        return self._bits(np.bitwise_and, np.logical_and)

    def _or(self) -> Step:
        return self._bits(np.bitwise_or, np.logical_or)

    def _xor(self) -> Step:
        return self._bits(np.bitwise_xor, np.logical_xor)

    def _not(self) -> Step:
        return self._bits(np.invert, np.logical_not, 1)

    def _shift(self, work: Callable[..., Any], beyond: Callable[[Any], Any]) -> Step:
        dtype = TYPES[self.kind]
        bits = dtype.itemsize * 8

        def shift(a: Any, by: Any) -> Any:
            inside = work(a, np.minimum(by, bits - 1).astype(dtype))
            return np.where(by >= bits, beyond(a), inside).astype(dtype)

        return self.each(shift, [self.kind, "u32"])

    def _shl(self) -> Step:
        return self._shift(np.left_shift, lambda a: a.dtype.type(0))

    def _shr(self) -> Step:
        signed = TYPES[self.kind].kind == "i"
        return self._shift(np.right_shift, lambda a: np.where(a < 0, -1, 0) if signed else a.dtype.type(0))

    def _shf(self) -> Step:
        left, clamp = self.has("l"), self.has("clamp")

        def funnel(a: Any, b: Any, c: Any) -> Any:
            by = np.minimum(c, 32) if clamp else c & 31
            whole = (b.astype("u8") << np.uint64(32)) | a
            by = by.astype("u8")
            return ((whole << by) >> np.uint64(32) if left else whole >> by).astype("u4")

        return self.each(funnel, ["b32", "b32", "u32"])

    def _lop3(self) -> Step:
        table = int(self.operands[4], 0)
        put = self.write(self.operands[0])
        readers = [self.read(t, "b32") for t in self.operands[1:4]]

        def look_up(g: Grid, m: Lanes) -> None:
            a, b, c = (r(g, m) for r in readers)
            found = a & b & c & np.uint32(0)
            for k in range(8):
                if table >> k & 1:
                    found = found | ((a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c))
            put(g, m, found)

        return look_up

    def _prmt(self) -> Step:
        if len(self.parts) > 1:
            raise ValueError(self.parts[0])

        def permute(a: Any, b: Any, c: Any) -> Any:
            whole = (b.astype("u8") << np.uint64(32)) | a
            found = np.zeros(np.broadcast(a, b, c).shape, "u4")
            for k in range(4):
                choice = (c >> np.uint32(4 * k)) & np.uint32(15)
                byte = (whole >> (np.uint64(8) * (choice & np.uint32(7)).astype("u8"))) & np.uint64(255)
                sign = np.where(byte & np.uint64(128), 255, 0).astype("u8")
                byte = np.where(choice & np.uint32(8), sign, byte)
                found = found | (byte.astype("u4") << np.uint32(8 * k))
            return found

        return self.same(permute, 3)

    def _bfe(self) -> Step:
        dtype = TYPES[self.kind]
        bits = dtype.itemsize * 8

        def extract(a: Any, start: Any, length: Any) -> Any:
            start, length = (np.asarray(v & 255).astype("i8") for v in (start, length))
            a = np.asarray(a)
            plain = a.view(f"u{dtype.itemsize}")
            shape = np.broadcast(a, start, length).shape
            found = np.zeros(shape, plain.dtype)
            highest = np.minimum(start + length - 1, bits - 1)
            sign = (plain >> np.maximum(highest, 0).astype(plain.dtype)) & plain.dtype.type(1)
            if dtype.kind == "u":
                sign = sign & plain.dtype.type(0)
            sign = np.where(length == 0, 0, sign)
            for k in range(bits):
                at = start + k
                own = (plain >> np.minimum(at, bits - 1).astype(plain.dtype)) & plain.dtype.type(1)
                bit = np.where((k < length) & (at < bits), own, sign).astype(plain.dtype)
                found = found | (bit << plain.dtype.type(k))
            return found.view(dtype)

        return self.each(extract, [self.kind, "u32", "u32"])

    def _bfi(self) -> Step:
        dtype = TYPES[self.kind]
        bits = dtype.itemsize * 8

        def insert(a: Any, b: Any, start: Any, length: Any) -> Any:
            start, length = (np.asarray(v & 255).astype("i8") for v in (start, length))
            found = np.broadcast_to(b, np.broadcast(a, b, start, length).shape).copy()
            for k in range(bits):
                inside = (k >= start) & (k < start + length)
                own = (a >> np.clip(k - start, 0, bits - 1).astype(dtype)) & dtype.type(1)
                clear = found & ~dtype.type(1 << k)
                found = np.where(inside, clear | (own << dtype.type(k)), found).astype(dtype)
            return found

        return self.each(insert, [self.kind, self.kind, "u32", "u32"])

    def _counted(self, work: Callable[[Any, int], Any]) -> Step:
        bits = TYPES[self.kind].itemsize * 8
        return self.same(lambda a: np.asarray(work(a, bits)).astype("u4"), 1)

    def _popc(self) -> Step:
        return self._counted(lambda a, bits: np.bitwise_count(a))

    def _clz(self) -> Step:
        return self._counted(lambda a, bits: bits - _length(a, bits))

    def _bfind(self) -> Step:
        if self.kind[0] == "s":
            return self._counted(lambda a, bits: _length(np.where(a < 0, ~a, a).view(f"u{bits // 8}"), bits) - 1)
        return self._counted(lambda a, bits: _length(a, bits) - 1)

    def _brev(self) -> Step:
        bits = TYPES[self.kind].itemsize * 8

        def turn(a: Any) -> Any:
            kind = a.dtype.type
            found = a & kind(0)
            for k in range(bits):
                found = found | (((a >> kind(k)) & kind(1)) << kind(bits - 1 - k))
            return found

        return self.same(turn, 1)

    def _dp4a(self) -> Step:
        kinds = [("i1" if p == "s32" else "u1") for p in self.parts[-2:]]

        def dot(a: Any, b: Any, c: Any) -> Any:
            total = c.astype("i8")
            for k in range(4):
                x, y = (
                    ((v >> np.uint32(8 * k)) & np.uint32(255)).astype("u1").view(t)
                    for v, t in zip((a, b), kinds, strict=False)
                )
                total = total + x.astype("i8") * y.astype("i8")
            return total.astype("i4")

        return self.each(dot, ["b32", "b32", "s32"])


def _length(a: Any, bits: int) -> Any:
    """Return the bit length of each number: the number of bits without leading zeros."""
    found = np.zeros(np.shape(a), np.int64)
    rest = np.asarray(a).astype("u8")
    for step in (32, 16, 8, 4, 2, 1):
        large = rest >> np.uint64(step) != 0
        found = found + np.where(large, step, 0)
        rest = np.where(large, rest >> np.uint64(step), rest)
    return found + (rest != 0)
