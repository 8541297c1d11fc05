"""The operands of an instruction: registers, constants, addresses and variables.

In: an `Instruction`. Out: functions of a `Grid` and its lanes. Invariant: an unknown type or name is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.stand_in.ptx import numbers
from tests.stand_in.ptx.machine import CALL_BITS, REGISTER, Grid, Lanes, Program, Step
from tests.stand_in.ptx.text import Instruction

Read = Callable[[Grid, Lanes], Any]
TYPES: dict[str, Any] = {
    **{f"{k}{8 * n}": np.dtype(f"{'i' if k == 's' else 'u'}{n}") for k in "bus" for n in (1, 2, 4, 8)},
    **{f"f{8 * n}": np.dtype(f"f{n}") for n in (2, 4, 8)},
    "bf16": np.dtype("u2"),
    "pred": np.dtype(np.bool_),
}
SPACES = ("global", "shared", "local", "const", "param")
# Modifiers for caches and memory ordering, which have no effect on the simulated GPU.
SAID_ONLY = {
    "nc",
    "volatile",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "weak",
    "gpu",
    "cta",
    "sys",
    "cluster",
    "cg",
    "cs",
}
SAID_ONLY |= {
    "ca",
    "cv",
    "lu",
    "wb",
    "wt",
    "L1::no_allocate",
    "L1::evict_first",
    "L2::128B",
    "L2::256B",
    "aligned",
    "noftz",
}


class Operands:
    """A reader of the operands of an instruction."""

    def __init__(self, program: Program, instruction: Instruction) -> None:
        self.program, self.function = program, program.function
        self.i = instruction
        self.parts = [p for p in instruction.parts if p not in SAID_ONLY]
        self.operands = instruction.operands
        self.own_local = {v.name for v in self.function.variables if v.space == "local"}

    @property
    def kind(self) -> str:
        return self.parts[-1]

    def has(self, *parts: str) -> bool:
        """Return whether the instruction has at least one of these modifiers."""
        return any(p in self.parts for p in parts)

    def read(self, text: str, kind: str) -> Read:
        """Return a function that reads an operand as values of a type."""
        dtype = TYPES[kind]
        if text.startswith("{"):
            return self._packed(text, dtype)
        if text in self.function.registers:
            own = np.dtype(REGISTER[self.function.registers[text]])
            if own == dtype:
                return lambda g, m: g.regs[text][m]
            if own.itemsize == dtype.itemsize:
                return lambda g, m: g.regs[text][m].view(dtype)
            unsigned = np.dtype(f"u{dtype.itemsize}")
            return lambda g, m: g.regs[text][m].astype(unsigned).view(dtype)
        if text.startswith(("%clock", "%globaltimer")):
            return lambda g, m: dtype.type(next(_ticks))
        if text == "%total_smem_size":
            return lambda g, m: np.uint32(g.shared_size)
        if text.startswith("%"):
            return lambda g, m: _taken(g.special[text], m).astype(dtype)
        value = self._immediate(text, dtype)
        if text in self.own_local:
            return lambda g, m: value + dtype.type(g.depth << CALL_BITS)
        return lambda g, m: value

    def _packed(self, text: str, dtype: np.dtype) -> Read:
        names = [n.strip() for n in text.strip("{}").split(",")]
        size = dtype.itemsize // len(names)
        readers = [self.read(name, f"b{8 * size}") for name in names]
        unsigned = np.dtype(f"u{dtype.itemsize}")

        def packed(g: Grid, m: Lanes) -> Any:
            whole = sum(r(g, m).astype(unsigned) << unsigned.type(8 * size * k) for k, r in enumerate(readers))
            return np.asarray(whole).astype(unsigned).view(dtype)

        return packed

    def _immediate(self, text: str, dtype: np.dtype) -> Any:
        if re.match(r"0[fF][0-9a-fA-F]{8}$|0[dD][0-9a-fA-F]{16}$", text):
            bits = np.dtype("u4" if text[1] in "fF" else "u8").type(int(text[2:], 16))
            value = bits.view(f"f{bits.dtype.itemsize}")
            return value.astype(dtype) if dtype.kind == "f" else bits.astype(f"u{dtype.itemsize}").view(dtype)
        if re.match(r"-?(0x[0-9a-fA-F]+|\d+)U?$", text):
            number = int(text.rstrip("U"), 0)
            if dtype.kind == "b":
                return np.bool_(number)
            unsigned = np.dtype(f"u{dtype.itemsize}")
            return unsigned.type(number & ((1 << 8 * dtype.itemsize) - 1)).view(dtype)
        return np.dtype(f"u{dtype.itemsize}").type(self.symbol(text))

    def symbol(self, text: str) -> int:
        """Return the address of a variable, given as ``name``, ``name+4`` or ``generic(name)``.

        For a parameter of the kernel, return its offset in bytes.
        """
        found = re.fullmatch(r"(generic\()?([\w$]+)\)?(?:\+(-?\d+))?", text)
        if found is not None and self.function.is_kernel and found[2] in self.function.parameters:
            return self.function.parameters[found[2]][0] + int(found[3] or 0)
        if found is None or found[2] not in self.program.symbols:
            raise ValueError(f"no variable {text}")
        return self.program.symbols[found[2]] + int(found[3] or 0)

    def write(self, text: str) -> Callable[[Grid, Lanes, Any], None]:
        """Return a function that writes a value to the registers that `text` names."""
        if text == "_":
            return lambda g, m, v: None
        if text.startswith("{"):
            names = [n.strip() for n in text.strip("{}").split(",")]
            writers = [self.write(name) for name in names]

            def spread(g: Grid, m: Lanes, v: Any) -> None:
                size = v.dtype.itemsize // len(names)
                whole = v.view(f"u{v.dtype.itemsize}")
                for k, writer in enumerate(writers):
                    part = (whole >> whole.dtype.type(8 * size * k)).astype(f"u{size}")
                    writer(g, m, part)

            return spread
        own = np.dtype(REGISTER[self.function.registers[text]])

        def put(g: Grid, m: Lanes, v: Any) -> None:
            v = np.asarray(v)
            same = own.itemsize == v.dtype.itemsize and own.kind != "b"
            g.regs[text][m] = v.view(own) if same else v.astype(own)

        return put

    def address(self, text: str) -> Read:
        """Return a function that computes an address.

        `text` has the form ``[register+offset]``, ``[name+offset]`` or ``[number]``.
        """
        inside = text.strip("[]").strip()
        found = re.fullmatch(r"(%[\w$]+)(?:\+(-?\d+))?", inside)
        if found is None:
            value = int(inside) if inside.lstrip("-").isdigit() else self.symbol(inside)
            return lambda g, m: np.uint64(value)
        name, offset = found[1], int(found[2] or 0)
        if np.dtype(REGISTER[self.function.registers[name]]).itemsize == 8:
            shift = np.uint64(offset & 0xFFFFFFFFFFFFFFFF)
            return lambda g, m: g.regs[name][m] + shift
        short = np.uint32(offset & 0xFFFFFFFF)
        return lambda g, m: (g.regs[name][m] + short).astype(np.uint64)

    def each(self, work: Callable[..., Any], kinds: list[str]) -> Step:
        """Return a step that computes a result for each lane.

        With the modifier `ftz`, subnormal operands and results become zero.
        """
        put = self.write(self.operands[0])
        readers = [self.read(text, kind) for text, kind in zip(self.operands[1:], kinds, strict=True)]
        if self.has("ftz"):
            return lambda g, m: put(g, m, numbers.flush(work(*(numbers.flush(r(g, m)) for r in readers))))
        return lambda g, m: put(g, m, work(*(r(g, m) for r in readers)))

    def same(self, work: Callable[..., Any], count: int = 2) -> Step:
        """Return a function that executes the instruction by calling `work`. All operands have the same type, that of the instruction.

        f16x2 is computed in two halves.
        """
        if self.kind == "f16x2":

            def of_pairs(*values: Any) -> Any:
                halves = [np.atleast_1d(np.ascontiguousarray(v)).view("f2").reshape(-1, 2) for v in values]
                return np.ascontiguousarray(work(*halves).astype("f2")).view("u4")[:, 0]

            return self.each(of_pairs, ["b32"] * count)
        return self.each(work, [self.kind] * count)

    @property
    def is_float(self) -> bool:
        return self.kind == "f16x2" or TYPES[self.kind].kind == "f"

    def rounding(self) -> str:
        """Return the directed rounding mode, or "" for rounding to nearest."""
        return next((p for p in self.parts if p in ("rz", "rm", "rp")), "")


def _ticking() -> Iterator[int]:
    """Yield increasing values for clock registers."""
    k = 0
    while True:
        k += 1000
        yield k


_ticks = _ticking()


def _taken(values: Any, m: Lanes) -> Any:
    return values[m] if values.ndim else values


def lanes_of(g: Grid, m: Lanes) -> np.ndarray:
    """Return the lane numbers that `m` stands for, as an array. `m` is such an array, or ``slice(None)`` for all lanes."""
    return np.arange(g.lanes) if isinstance(m, slice) else m
