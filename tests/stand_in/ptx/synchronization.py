"""PTX instructions for memory accesses, atomics, barriers and warp operations.

Each method returns the step that executes an instruction. Source: NVIDIA, Parallel Thread Execution ISA 9.0, sections
9.7.9 and 9.7.13. Invariant: atomics that several threads execute at the same time take effect in random order.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from tests.stand_in.ptx.machine import ASSERTION, ILLEGAL_ADDRESS, Barrier, Fault, Grid, Lanes, Step, Together
from tests.stand_in.ptx.operands import SPACES, TYPES, Operands, lanes_of

REDUCTIONS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
ATOMICS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "min": np.minimum,
    "max": np.maximum,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exch": lambda a, b: b,
    "cas": lambda a, b, c: np.where(a == b, c, a),
    "inc": lambda a, b: np.where(a >= b, a.dtype.type(0), a + a.dtype.type(1)),
    "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - a.dtype.type(1)),
}


class Memory(Operands):
    """Instructions for loads, stores and atomics."""

    def _where(self) -> tuple[str, int, str]:
        """Return the memory space of a memory instruction, and the number and type of the elements that it accesses."""
        said = [p.split("::")[0] for p in self.parts]
        space = next((p for p in said if p in SPACES), "")
        count = next((int(p[1:]) for p in said if re.fullmatch(r"v\d", p)), 1)
        return "global" if space == "const" else space, count, self.kind

    def _ld(self) -> Step:
        space, count, kind = self._where()
        names = [n.strip() for n in self.operands[0].strip("{}").split(",")]
        puts, dtype = [self.write(name) for name in names], TYPES[kind]
        if space == "param":
            return self._parameter(puts, dtype)
        address = self.address(self.operands[1])

        def load(g: Grid, m: Lanes) -> None:
            for put, value in zip(puts, g.load(space, address(g, m), lanes_of(g, m), dtype, count), strict=False):
                put(g, m, value)

        return load

    def _parameter(self, puts: list[Any], dtype: np.dtype) -> Step:
        """Return a function that executes ``ld.param``. It loads a parameter of the kernel or function, or the value that a call returned."""
        name, _, more = self.operands[1].strip("[]").partition("+")
        offset, size = int(more or 0), dtype.itemsize
        if name.startswith("%"):  # the address of an array among the parameters, which `mov` has taken
            start = self.read(name, "u64")

            def of_array(g: Grid, m: Lanes) -> None:
                first = np.broadcast_to(start(g, m), lanes_of(g, m).shape).astype(np.int64) + offset
                if len(first) and not (first.min() >= 0 and first.max() + len(puts) * size <= len(g.parameters)):
                    raise Fault(ILLEGAL_ADDRESS, "a read beyond the parameters")
                for k, put in enumerate(puts):
                    part = g.parameters[first[:, None] + np.arange(k * size, (k + 1) * size)]
                    put(g, m, np.ascontiguousarray(part).view(dtype)[:, 0])

            return of_array
        if self.function.is_kernel and name in self.function.parameters:
            offset += self.function.parameters[name][0]

            def of_launch(g: Grid, m: Lanes) -> None:
                for k, put in enumerate(puts):
                    put(g, m, g.parameters[offset + k * size : offset + (k + 1) * size].view(dtype)[0])

            return of_launch
        own = name in self.function.parameters

        def of_call(g: Grid, m: Lanes) -> None:
            whole = (g.given if own else g.passed)[name]
            for k, put in enumerate(puts):
                part = np.ascontiguousarray(whole[m, offset + k * size : offset + (k + 1) * size])
                put(g, m, part.view(dtype)[:, 0])

        return of_call

    def _pass(self, readers: list[Any], dtype: np.dtype) -> Step:
        """Return a function that executes the PTX instruction ``st.param``. The instruction stores an argument for a call, or a return value."""
        name, _, more = self.operands[0].strip("[]").partition("+")
        offset, size = int(more or 0), dtype.itemsize
        declared = [v.size for v in self.function.variables if v.name == name]
        length = max([*declared, *(s for n, (_, s) in self.function.results.items() if n == name)])
        own = name in self.function.results

        def write(g: Grid, m: Lanes) -> None:
            whole = (g.given if own else g.passed).setdefault(name, np.zeros((g.lanes, length), np.uint8))
            for k, r in enumerate(readers):
                values = np.broadcast_to(np.asarray(r(g, m)).astype(dtype), lanes_of(g, m).shape)
                part = np.ascontiguousarray(values)[:, None].view(np.uint8)
                whole[m, offset + k * size : offset + (k + 1) * size] = part

        return write

    def _call(self) -> Step:
        """Return a step in which the lanes that have reached a call execute it together."""
        back = [o.strip("()") for o in self.operands[:1] if o.startswith("(")]
        name, *rest = self.operands[len(back) :]
        passed = [p.strip() for p in rest[0].strip("()").split(",")] if rest else []
        if name == "vprintf":
            return lambda g, m: say(g, lanes_of(g, m), *passed)
        if name == "__assertfail":
            return self._fail
        program = self.program.calls[name]

        def call(g: Grid, m: Lanes) -> None:
            given = {n: g.passed[p] for n, p in zip(program.function.parameters, passed, strict=True)}
            found = g.call(program, lanes_of(g, m), dict(given))
            for parameter, result in zip(back, program.function.results, strict=True):
                if result in found:
                    whole = g.passed.setdefault(parameter, np.zeros_like(found[result]))
                    if whole.shape != found[result].shape:
                        whole = g.passed[parameter] = np.zeros_like(found[result])
                    whole[m] = found[result][m]

        return call

    @staticmethod
    def _fail(g: Grid, m: Lanes) -> None:
        raise Fault(ASSERTION, "an assertion")

    def _ldu(self) -> Step:
        return self._ld()

    def _st(self) -> Step:
        space, _, kind = self._where()
        names = [n.strip() for n in self.operands[1].strip("{}").split(",")]
        readers = [self.read(name, kind) for name in names]
        if space == "param":
            return self._pass(readers, TYPES[kind])
        address = self.address(self.operands[0])

        def store(g: Grid, m: Lanes) -> None:
            g.store(space, address(g, m), lanes_of(g, m), [np.asarray(r(g, m)) for r in readers])

        return store

    def _atom(self) -> Step:
        return self._atomic(self.operands[0], self.operands[1:])

    def _red(self) -> Step:
        return self._atomic("_", self.operands)

    def _atomic(self, out: str, operands: tuple[str, ...]) -> Step:
        space = next((p.split("::")[0] for p in self.parts if p.split("::")[0] in SPACES), "")
        op, dtype = next(p for p in self.parts if p in ATOMICS), TYPES[self.kind]
        change = ATOMICS[op]
        put, address = self.write(out), self.address(operands[0])
        readers = [self.read(text, self.kind) for text in operands[1:]]

        def one_after_another(g: Grid, m: Lanes) -> None:
            lanes = lanes_of(g, m)
            at = np.broadcast_to(address(g, m), lanes.shape)
            given = [np.broadcast_to(r(g, m), lanes.shape) for r in readers]
            before = np.empty(lanes.shape, dtype)
            for k in g.random.permutation(len(lanes)):
                whose = lanes[k : k + 1]
                old = g.load(space, at[k : k + 1], whose, dtype, 1)[0]
                before[k] = old[0]
                new = change(old, *(v[k : k + 1] for v in given))
                g.store(space, at[k : k + 1], whose, [np.asarray(new).astype(dtype)])
            put(g, m, before)

        return one_after_another

    def _nothing(self) -> Step:
        return lambda g, m: None

    _membar = _fence = _nanosleep = _prefetch = _prefetchu = _pmevent = _griddepcontrol = _nothing


_DIRECTIVE = re.compile(r"%[-+ #0]*(?:\d*|\*)(?:\.\d+)?(hh|ll|h|l|z|j|t)?([diuoxXeEfFgGaAcsp%])")


def say(g: Grid, lanes: np.ndarray, form: str, values: str) -> None:
    """Print to standard output like C's ``printf``, as the driver does."""
    forms, packed = (np.ascontiguousarray(g.passed[n][lanes]).view("u8")[:, 0] for n in (form, values))

    def text(at: np.ndarray) -> str:
        found, k = bytearray(), 0
        while (byte := int(g.load("", at + np.uint64(k), one, "u1", 1)[0][0])) and k < 4096:
            found.append(byte)
            k += 1
        return found.decode(errors="replace")

    for k in range(len(lanes)):
        one, at = lanes[k : k + 1], packed[k : k + 1].copy()
        said, end = "", 0
        whole = text(forms[k : k + 1])
        for directive in _DIRECTIVE.finditer(whole):
            said += whole[end : directive.start()]
            end = directive.end()
            kind = directive[2]
            if kind == "%":
                said += "%"
                continue
            plain = directive[0].replace(directive[1] or "\0", "")
            if "*" in plain:
                at = (at + np.uint64(3)) & ~np.uint64(3)
                plain = plain.replace("*", str(g.load("", at, one, "i4", 1)[0][0]))
                at = at + np.uint64(4)
            wide = kind in "eEfFgGaAsp" or directive[1] in ("l", "ll", "z", "j", "t")
            at = (at + np.uint64(7 if wide else 3)) & ~np.uint64(7 if wide else 3)
            dtype = "f8" if kind in "eEfFgGaA" else ("i" if kind in "di" else "u") + ("8" if wide else "4")
            value = g.load("", at, one, dtype, 1)[0][0]
            at = at + np.uint64(8 if wide else 4)
            if kind == "s":
                said += plain % text(np.array([value], "u8"))
            elif kind == "p":
                said += f"{int(value):#x}"
            elif kind == "u":
                said += plain.replace("u", "d") % int(value)
            else:
                said += plain % (float(value) if dtype == "f8" else int(value))
        os.write(1, (said + whole[end:]).encode())


class Synchronization(Operands):
    """Instructions for barriers, and for operations among the lanes of a warp."""

    def _barrier(self) -> Any:
        if self.has("warp"):
            return Together(self.read(self.operands[0], "b32"), lambda g, m: None)
        if self.has("red"):
            return self._folding()
        if not self.has("sync"):
            raise ValueError("arrives only")
        count = self.read(self.operands[1], "u32") if len(self.operands) > 1 else None
        return Barrier(self.read(self.operands[0], "u32"), count)

    _bar = _barrier

    def _folding(self) -> Barrier:
        """Return the barrier of the instruction ``bar.red``. It folds the predicates of its threads into one value.

        It counts the true predicates, or tests whether all or any of them are true.
        """
        op = next(p for p in self.parts if p in ("popc", "and", "or"))
        put, number = self.write(self.operands[0]), self.read(self.operands[1], "u32")
        text = self.operands[-1]
        holds, turned = self.read(text.lstrip("!"), "pred"), text.startswith("!")

        def fold(g: Grid, lanes: np.ndarray) -> None:
            true = np.broadcast_to(holds(g, lanes), lanes.shape) != turned
            block = g.block_of[lanes]
            yes, of = np.bincount(block, true, g.blocks), np.bincount(block, minlength=g.blocks)
            found = {"popc": yes.astype("u4"), "and": yes == of, "or": yes > 0}[op]
            put(g, lanes, found[block])

        return Barrier(number, None, fold)

    def _shfl(self) -> Together:
        mode = next(p for p in self.parts if p in ("up", "down", "bfly", "idx"))
        destination, _, valid = self.operands[0].partition("|")
        put, put_valid = self.write(destination), self.write(valid) if valid else None
        value, by, clamp = (self.read(t, "b32") for t in self.operands[1:4])

        def exchange(g: Grid, m: Lanes) -> None:
            lanes = lanes_of(g, m)
            lane = g.lane_of[lanes].astype(np.int64)
            b, c = (np.broadcast_to(r(g, m), lanes.shape).astype(np.int64) for r in (by, clamp))
            segment = c >> 8 & 31
            least, most = lane & segment, (lane & segment) | (c & 31 & ~segment)
            b = b & 31
            source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": least | (b & ~segment)}[mode]
            inside = source >= most if mode == "up" else source <= most
            source = np.where(inside, source, lane)
            given = np.full(g.lanes, 0xA5A5A5A5, np.uint32)  # absent lanes have no value
            given[lanes] = value(g, m)
            put(g, m, given[lanes - lane + source])
            if put_valid is not None:
                put_valid(g, m, inside)

        return Together(self.read(self.operands[4], "b32"), exchange)

    def _vote(self) -> Together:
        mode = next(p for p in self.parts if p in ("all", "any", "uni", "ballot"))
        put, text = self.write(self.operands[0]), self.operands[1]
        holds, turned = self.read(text.lstrip("!"), "pred"), text.startswith("!")

        def ask(g: Grid, m: Lanes) -> None:
            lanes = lanes_of(g, m)
            true = np.broadcast_to(holds(g, m), lanes.shape) != turned
            yes, here = _ballot(g, lanes[true]), _ballot(g, lanes)
            yes, here = yes[g.warp_of[lanes]], here[g.warp_of[lanes]]
            answers = {"ballot": yes, "all": yes == here, "any": yes != 0, "uni": (yes == 0) | (yes == here)}
            put(g, m, answers[mode])

        return Together(self.read(self.operands[2], "b32"), ask)

    def _match(self) -> Together:
        destination, _, valid = self.operands[0].partition("|")
        put, put_valid = self.write(destination), self.write(valid) if valid else None
        value, every = self.read(self.operands[1], self.kind), self.has("all")

        def match(g: Grid, m: Lanes) -> None:
            lanes = lanes_of(g, m)
            given = np.broadcast_to(value(g, m), lanes.shape)
            found = np.zeros(lanes.shape, np.uint32)
            for k in range(len(lanes)):
                alike = lanes[(g.warp_of[lanes] == g.warp_of[lanes[k]]) & (given == given[k])]
                found[k] = np.bitwise_or.reduce(np.uint32(1) << g.lane_of[alike])
            if every:
                whole = found == _ballot(g, lanes)[g.warp_of[lanes]]
                found = np.where(whole, found, 0).astype(np.uint32)
                if put_valid is not None:
                    put_valid(g, m, whole)
            put(g, m, found)

        return Together(self.read(self.operands[2], "b32"), match)

    def _redux(self) -> Together:
        op = next(p for p in self.parts if p in REDUCTIONS)
        put, value = self.write(self.operands[0]), self.read(self.operands[1], self.kind)

        def fold(g: Grid, m: Lanes) -> None:
            lanes = lanes_of(g, m)
            given = np.broadcast_to(value(g, m), lanes.shape)
            found = np.empty(lanes.shape, given.dtype)
            for warp in np.unique(g.warp_of[lanes]):
                own = g.warp_of[lanes] == warp
                found[own] = REDUCTIONS[op].reduce(given[own], dtype=given.dtype)
            put(g, m, found)

        return Together(self.read(self.operands[2], "b32"), fold)

    def _activemask(self) -> Step:
        put = self.write(self.operands[0])

        def active(g: Grid, m: Lanes) -> None:
            lanes = lanes_of(g, m)
            put(g, m, _ballot(g, lanes)[g.warp_of[lanes]])

        return active

    def _elect(self) -> Together:
        destination, _, chosen = self.operands[0].partition("|")
        put, put_chosen = self.write(destination), self.write(chosen)

        def elect(g: Grid, m: Lanes) -> None:
            lanes = lanes_of(g, m)
            first = np.full(g.lanes // 32, 32, np.int64)
            np.minimum.at(first, g.warp_of[lanes], g.lane_of[lanes])
            leader = first[g.warp_of[lanes]]
            put(g, m, leader.astype("u4"))
            put_chosen(g, m, leader == g.lane_of[lanes])

        return Together(self.read(self.operands[1], "b32"), elect)


def _ballot(g: Grid, lanes: np.ndarray) -> np.ndarray:
    """Return a bit mask for each warp, with a bit for each lane in `lanes`."""
    found = np.zeros(g.lanes // 32, np.uint32)
    np.bitwise_or.at(found, g.warp_of[lanes], np.uint32(1) << g.lane_of[lanes])
    return found
