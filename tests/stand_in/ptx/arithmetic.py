"""PTX arithmetic instructions, which each thread executes independently.

Each method returns the step that executes an instruction. Source: NVIDIA, Parallel Thread Execution ISA 9.0, sections
9.7.1 to 9.7.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.stand_in.ptx import numbers
from tests.stand_in.ptx.machine import LOCAL_WINDOW, SHARED_WINDOW, Grid, Lanes, Step
from tests.stand_in.ptx.operands import SPACES, TYPES, Operands

COMPARISONS: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
LOGIC: dict[str, Any] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


class Arithmetic(Operands):
    """Instructions for sums, products, quotients, minima, maxima and elementary functions."""

    def _arithmetic(self, name: str, work: Callable[..., Any]) -> Step:
        if self.has("cc"):
            return self._carried(name, False)
        if self.has("sat"):
            raise ValueError("saturation")
        towards = self.rounding()
        if towards:
            return self.same(lambda a, b: numbers.directed(name, towards, a, b))
        if self.kind.startswith("bf16"):
            raise ValueError(self.kind)
        return self.same(work)

    def _add(self) -> Step:
        return self._arithmetic("add", np.add)

    def _sub(self) -> Step:
        return self._arithmetic("sub", np.subtract)

    def _mul(self) -> Step:
        if self.has("wide"):
            return self._wide(lambda a, b: a * b, 2)
        if self.has("hi"):
            return self.same(numbers.high_product)
        return self._arithmetic("mul", np.multiply)

    def _wide(self, work: Callable[..., Any], count: int) -> Step:
        """Return the step for an integer operation whose result is twice as wide as its factors."""
        double = np.dtype(f"{TYPES[self.kind].kind}{2 * TYPES[self.kind].itemsize}")
        kinds = [self.kind, self.kind, f"{self.kind[0]}{16 * TYPES[self.kind].itemsize}"][:count]
        return self.each(lambda *v: work(*(x.astype(double) for x in v)), kinds)

    def _carried(self, name: str, takes: bool) -> Step:
        """Return the step for an operation with carry.

        The step reads the carry flag if `takes`, and sets the carry flag if the instruction has ``.cc``.
        """
        put, gives = self.write(self.operands[0]), self.has("cc")
        readers = [self.read(text, self.kind.replace("s", "u")) for text in self.operands[1:]]
        high = self.has("hi")

        def carried(g: Grid, m: Lanes) -> None:
            a, b, *more = (np.asarray(r(g, m)) for r in readers)
            if more:
                a, b = (numbers.high_product(a, b) if high else a * b), more[0]
            given = g.carry[m].astype(a.dtype) if takes else a.dtype.type(0)
            if name == "sub":
                first = a - b
                found = first - given
                over = (a < b) | (first < given)
            else:
                first = a + b
                found = first + given
                over = (first < a) | (found < first)
            put(g, m, found)
            if gives:
                g.carry[m] = over

        return carried

    def _addc(self) -> Step:
        return self._carried("add", True)

    def _subc(self) -> Step:
        return self._carried("sub", True)

    def _madc(self) -> Step:
        return self._carried("mad", True)

    def _mad(self) -> Step:
        if self.has("cc"):
            return self._carried("mad", False)
        if self.has("wide"):
            return self._wide(lambda a, b, c: a * b + c, 3)
        if self.has("hi"):
            return self.same(lambda a, b, c: numbers.high_product(a, b) + c, 3)
        if self.is_float:
            return self._fma()
        return self.same(lambda a, b, c: a * b + c, 3)

    def _fma(self) -> Step:
        towards = self.rounding()
        if towards:
            return self.same(lambda a, b, c: numbers.directed("fma", towards, a, b, c), 3)
        return self.same(numbers.fma, 3)

    def _div(self) -> Step:
        if not self.is_float:
            return self.same(lambda a, b: numbers.divide(a, b, False))
        if self.has("approx", "full"):
            return self.same(lambda a, b: numbers.approximate(a.astype("f8") / b.astype("f8"), a.dtype, 2))
        return self.same(np.divide)

    def _rem(self) -> Step:
        return self.same(lambda a, b: numbers.divide(a, b, True))

    def _approximated(self, work: Callable[[Any], Any], exact: bool = True) -> Step:
        if self.rounding():
            raise ValueError(self.rounding())
        if self.has("approx"):
            # for float64, only the upper word of the operand is used
            if self.kind == "f64":
                high = np.uint64(0xFFFFFFFF00000000)
                return self.same(lambda a: (work((a.view("u8") & high).view("f8")).view("u8") & high).view("f8"), 1)
            return self.same(lambda a: numbers.approximate(work(a.astype("f8")), a.dtype), 1)
        return self.same(lambda a: work(a).astype(a.dtype), 1)

    def _rcp(self) -> Step:
        return self._approximated(lambda a: 1 / a)

    def _sqrt(self) -> Step:
        return self._approximated(np.sqrt)

    def _rsqrt(self) -> Step:
        return self._approximated(lambda a: 1 / np.sqrt(a))

    def _ex2(self) -> Step:
        return self._approximated(np.exp2)

    def _lg2(self) -> Step:
        return self._approximated(np.log2)

    def _sin(self) -> Step:
        return self._approximated(np.sin)

    def _cos(self) -> Step:
        return self._approximated(np.cos)

    def _tanh(self) -> Step:
        return self._approximated(np.tanh)

    def _abs(self) -> Step:
        return self.same(np.abs, 1)

    def _neg(self) -> Step:
        return self.same(np.negative, 1)

    def _copysign(self) -> Step:
        return self.same(lambda a, b: np.copysign(b, a))

    def _extreme(self, sign: int) -> Step:
        if self.has("xorsign", "relu"):
            raise ValueError("modifier")
        if not self.is_float:
            return self.same(np.minimum if sign > 0 else np.maximum)
        if self.has("NaN"):
            return self.same(
                lambda a, b: np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), numbers.smaller(a, b, sign))
            )
        return self.same(lambda a, b: numbers.smaller(a, b, sign))

    def _min(self) -> Step:
        return self._extreme(1)

    def _max(self) -> Step:
        return self._extreme(-1)

    def _testp(self) -> Step:
        kind: dict[str, Any] = {
            "finite": np.isfinite,
            "infinite": np.isinf,
            "notanumber": np.isnan,
            "number": lambda a: ~np.isnan(a),
        }
        return self.same(kind[self.parts[0]], 1)


class Choices(Operands):
    """Instructions for comparisons, selections and conversions."""

    def _mov(self) -> Step:
        return self.same(lambda a: a, 1)

    def _selp(self) -> Step:
        return self.each(lambda a, b, p: np.where(p, a, b), [self.kind, self.kind, "pred"])

    def _compared(self) -> Callable[[Any, Any], Any]:
        name = self.parts[0]
        if not self.is_float:
            return COMPARISONS[name]
        if name in ("num", "nan"):
            return lambda a, b: (np.isnan(a) | np.isnan(b)) == (name == "nan")
        if name.endswith("u"):
            compare = COMPARISONS[name[:-1]]
            return lambda a, b: compare(a, b) | np.isnan(a) | np.isnan(b)
        compare = COMPARISONS[name]
        return lambda a, b: compare(a, b) & ~(np.isnan(a) | np.isnan(b))

    def _setp(self) -> Step:
        compare, logic = self._compared(), next((LOGIC[p] for p in self.parts[1:-1] if p in LOGIC), None)
        destinations = self.operands[0].split("|")
        puts = [self.write(destination) for destination in destinations]
        left, right = (self.read(t, self.kind) for t in self.operands[1:3])
        third = self.operands[3] if logic else ""
        other = self.read(third.lstrip("!"), "pred") if third else None
        turned = third.startswith("!")
        small = numbers.flush if self.has("ftz") else lambda x: x

        def set_predicate(g: Grid, m: Lanes) -> None:
            found = compare(small(left(g, m)), small(right(g, m)))
            results = found, ~found
            if logic is not None and other is not None:
                given = other(g, m) != turned
                results = logic(found, given), logic(~found, given)
            for put, result in zip(puts, results, strict=False):
                put(g, m, result)

        return set_predicate

    def _set(self) -> Step:
        compare = self._compared()
        kind = self.parts[-2]
        true = -1 if TYPES[kind].kind != "f" else 1.0
        return self.same(lambda a, b: np.where(compare(a, b), true, 0).astype(TYPES[kind]))

    def _cvt(self) -> Step:
        to, source = self.parts[-2:]
        how = next((p for p in self.parts[:-2] if re.fullmatch(r"r[nzmp]i?", p)), "")
        left = set(self.parts[:-2]) - {how, "ftz", "sat"}
        if left:
            raise ValueError(str(left))
        if to.endswith("x2"):
            one = _conversion(to.removesuffix("x2"), source, how, self.has("sat"))

            def both(a: Any, b: Any) -> Any:
                high, low = (np.asarray(one(v)).view("u2").astype("u4") for v in (a, b))
                return high << np.uint32(16) | low

            return self.each(both, [source, source])
        return self.each(_conversion(to, source, how, self.has("sat")), [source])

    def _cvta(self) -> Step:
        space = next(p for p in self.parts if p in SPACES)
        window = np.uint64({"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0))
        if self.has("to"):
            return self.each(lambda a: a - window, ["b64"])
        return self.each(lambda a: a + window, ["b64"])


def _conversion(to: str, source: str, how: str, saturated: bool) -> Callable[[Any], Any]:
    """Return a function that converts arrays from the PTX type `source` to the type `to`."""
    if to == "bf16" or source == "bf16":
        return _of_bfloat16(to, source, how)
    target, given = TYPES[to], TYPES[source]
    if given.kind == "f" and target.kind in "iu":
        return lambda a: numbers.to_integer(a, target, how)
    if given.kind in "iu" and target.kind in "iu":
        if saturated:
            info = np.iinfo(target)
            return lambda a: np.clip(a.astype(object), info.min, info.max).astype(target)
        return lambda a: a.astype(target)
    if given.kind in "iu":
        if how != "rn":
            raise ValueError(how)
        if target == np.float16:
            return lambda a: a.astype("f8").astype(target)
        return lambda a: a.astype(target)
    whole: dict[str, Any] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    rounded = whole.get(how, lambda a: a)
    if how in ("rz", "rm", "rp"):
        if (source, to) != ("f64", "f32"):
            raise ValueError(how)
        return lambda a: numbers.towards(a, np.zeros_like(a), how)
    if saturated:
        return lambda a: np.where(np.isnan(a), 0, np.clip(rounded(a), 0, 1)).astype(target)
    return lambda a: rounded(a).astype(target)


def _of_bfloat16(to: str, source: str, how: str) -> Callable[[Any], Any]:
    if (to, source) == ("f32", "bf16"):
        return lambda a: (a.astype("u4") << np.uint32(16)).view("f4")
    if (to, source, how) == ("bf16", "f32", "rn"):

        def shorten(a: Any) -> Any:
            bits = np.asarray(a).view("u4").astype("u8")
            near = ((bits + np.uint64(0x7FFF) + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)).astype("u2")
            return np.where(np.isnan(a), np.uint16(0x7FFF), near)

        return shorten
    raise ValueError(f"{to} from {source}")
