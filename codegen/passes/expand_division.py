"""Inline code for exact float32 divisions and square roots on a GPU.

GPUs have only approximate instructions. NVIDIA's compiler refines their results by a short path, and calls a function
for extreme numbers. A call costs every kernel the registers that the callee may use, and code for each of its
arguments.

In: a threaded kernel for a GPU, with all ops lowered. Out: float32 quotients and roots by the short path of NVIDIA's
compiler. A branch that few threads take gives the right results for all other numbers. Adjacent quotients share a
branch. Invariant: the bits are those of IEEE 754 and NumPy. `tests/codegen/passes/test_expand_division.py` runs exactly
these steps with the worst allowed approximations.

*Quotients.* Let r be the approximate reciprocal of b after one Newton step, and q0 = a r. Then q = q0 + (a - b q0) r,
with each product and sum rounded once. If nothing leaves the range, a - b q0 is exact, and q is correctly rounded if r
is (P. Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, IBM J. Res. Dev. 34, 1990).
Here q0 may be off by 1.5 units, so q is within 2^-21 units of a/b before rounding. All pairs whose quotients are that
close to the midpoint of two floats were checked. If the approximation is within a unit, r is correctly rounded, except
for the significand of all ones with an approximation of exactly 1/2. GPUs do not return that approximation, since their
own division uses the same steps.

*Extreme quotients* use float64. With 1/b as the sum of two float64, accurate to 2^-59, a/b in float64 is exact if it
is representable, and otherwise has a relative error below 2^-52. No quotient of two float32 is closer than 2^-49 to
the midpoint of two float32, subnormal or not, without being the midpoint. Rounding twice is therefore the same as
rounding once.

*Quotients and roots of float16* are those of float32, rounded. No quotient of two float16 is closer than 2^-23 to the
midpoint of two float16. The operands are never extreme in float32, so there is no branch. The same holds for 16-bit
integers and most constants.

*Roots.* One Goldschmidt step from the approximate reciprocal root is followed by a correction with the exact
remainder. This was checked for every significand and every approximation within 2^-22.4. Roots are never subnormal,
and extreme numbers are scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Value
from weft.codegen.passes.rewrite import Replaced, Rewriter

# Maximum number of roots, or of quotients with different divisors, that share a branch. Their operands stay in
# registers until the branch is taken, so larger groups would need more registers.
_TOGETHER = 4
_LEAST = 2.0**-100  # from this size on, the remainder of a dividend or of a radicand is exact
_NORMAL = 2.0**-126
_FLOAT16, _FLOAT32, _FLOAT64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)


def expand_division(kernel: Kernel) -> Kernel:
    """Return the kernel with float32 quotients and roots expanded, or the kernel itself if it has none."""
    constants = {v: float(number) for v, number in kernel.constants().items() if v.type == _FLOAT32}
    integers = _casts_from(kernel, "bui")
    narrow = integers | _casts_from(kernel, "f") | {v for v, number in constants.items() if _is_moderate(number)}
    groups = {group[0]: group for block in kernel.blocks() for group in _groups(block, constants, narrow)}
    if not groups:
        return kernel
    made: dict[Operation, Value] = {}

    def rule(b: KernelBuilder, operation: Operation, operands: list[Replaced]) -> list[Replaced] | None:
        if operation in groups and _is_narrow(operation, narrow):
            given = [rewriter.map[v] for v in operation.operands]
            writer = _Writer(b, constants)
            if operation.opcode == "sqrt":
                return [writer.narrow_root(*given)]
            if operation.operands[0] in integers and 0 < constants.get(operation.operands[1], 0) < math.inf:
                return [writer.quotient(given[0], given[1], writer.reciprocal(given[1]))]
            return [writer.narrow_quotient(*given)]
        group = groups.get(operation)
        if group is not None:
            writer = _Writer(b, constants)
            given = [tuple(rewriter.map[v] for v in o.operands) for o in group]
            how = writer.roots if operation.opcode == "sqrt" else writer.quotients
            made.update(zip(group, how(given), strict=True))
        found = made.pop(operation, None)
        return None if found is None else [found]

    rewriter = Rewriter(kernel, rule)
    return rewriter.run()


def _casts_from(kernel: Kernel, kinds: str) -> set[Value]:
    """Return the results of casts from narrow dtypes to float32. A narrow dtype has at most 16 bits, and its NumPy kind is in the string `kinds`."""
    casts = [o for o in kernel.walk() if o.opcode == "cast" and o.results[0].type == _FLOAT32]
    before = [(o, o.operands[0].type) for o in casts]
    return {o.results[0] for o, type in before if type.kind in kinds and type.itemsize <= _FLOAT16.itemsize}  # type: ignore[union-attr]


def _is_moderate(number: float) -> bool:
    """Let x be any float16 number.

    Return whether `number / x` and `x / number` can both be computed without code for extreme magnitudes.

    True for 0, infinities and NaN, and for magnitudes from 2^-50 to 2^50.
    """
    return number == 0 or not np.isfinite(number) or _LEAST**0.5 <= abs(number) <= _LEAST**-0.5


def _is_narrow(o: Operation, narrow: set[Value]) -> bool:
    return all(v in narrow for v in o.operands)


def _groups(block: Block, constants: dict[Value, float], narrow: set[Value]) -> Iterator[list[Operation]]:
    """Yield groups of consecutive independent quotients or roots.

    Each operation whose operands are all `narrow` (such as float16) is a group of its own.
    """
    group: list[Operation] = []
    for o in block.operations:
        alone = _is_expanded(o, constants) and _is_narrow(o, narrow)
        if group and (alone or not _joins_group(o, group, constants)):
            yield group
            group = []
        if alone:
            yield [o]
        elif _is_expanded(o, constants):
            group.append(o)
    if group:
        yield group


def _is_expanded(o: Operation, constants: dict[Value, float]) -> bool:
    if o.opcode not in ("divide", "sqrt") or o.results[0].type != _FLOAT32:
        return False
    if all(v in constants for v in o.operands):
        return False  # LLVM folds it
    divisor = constants.get(o.operands[-1])
    if divisor is None:
        return True
    # a power of two: LLVM multiplies
    return math.frexp(divisor)[0] not in (0.5, -0.5) or not _NORMAL <= abs(divisor) <= 1 / _NORMAL


def _joins_group(o: Operation, group: list[Operation], constants: dict[Value, float]) -> bool:
    first = group[0]
    if o.opcode != first.opcode or not _is_expanded(o, constants):
        return False
    if any(v in made.results for v in o.operands for made in group):
        return False
    one_divisor = o.opcode == "divide" and all(made.operands[1] is o.operands[1] for made in group)
    return len(group) < _TOGETHER or one_divisor


class _Writer:
    """Builder of the code for a group of quotients or roots."""

    def __init__(self, builder: KernelBuilder, constants: dict[Value, float]) -> None:
        self.b = builder
        self.constants = constants

    # -- quotients ------------------------------------------------------------------------------

    def quotients(self, pairs: Sequence[tuple[Value, ...]]) -> Sequence[Value]:
        """Return the quotients of (dividend, divisor) pairs."""
        divisor = pairs[0][1]
        if len(pairs) > _TOGETHER:
            one = self.reciprocal(divisor)
            good = self.all_hold(self.safe_for(divisor, [a for a, _ in pairs]))
            return self.choose(good, lambda: [self.quotient(a, b, one) for a, b in pairs], self.wide_quotients, pairs)
        r = {b: self.reciprocal(b) for b in dict.fromkeys(b for _, b in pairs)}
        found = [self.quotient(a, b, r[b]) for a, b in pairs]
        good = self.all_hold(
            condition
            for (a, _), q in zip(pairs, found, strict=True)
            # an infinite or NaN intermediate result makes q NaN
            for condition in (self.is_least(a, _LEAST), self.is_least(q, 2 * _NORMAL))
        )
        return self.choose(good, lambda: found, self.wide_quotients, pairs)

    def narrow_quotient(self, a: Value, b: Value) -> Value:
        """Return a/b in float32 for float16 values, integers of at most 16 bits, and constants of moderate size.

        The quotient can neither overflow nor underflow.

        If an operand is 0, infinite or NaN, the short path may fail, but the rough quotient is right.
        """
        q = self.quotient(a, b, self.reciprocal(b))
        rough = self.b.op("multiply", a, self.rough_reciprocal(b))
        return self.b.op("where", self.b.op("less", self.float32(0), self.b.op("absolute", q)), q, rough)

    def choose(
        self,
        good: Value,
        short: Callable[[], Sequence[Value]],
        general: Callable[[Sequence[tuple[Value, ...]]], Sequence[Value]],
        given: Sequence[tuple[Value, ...]],
    ) -> Sequence[Value]:
        """Emit a branch on `good`.

        If it is true at run time, the results come from the code that ``short()`` emits, otherwise from that of
        ``general(given)``.
        """
        with self.b.if_(good, [_FLOAT32] * len(given)) as branch:
            branch.yield_(*short())
        with self.b.else_() as branch:
            branch.yield_(*general(given))
        return branch.results

    def safe_for(self, divisor: Value, dividends: Sequence[Value]) -> Iterator[Value]:
        """Yield run-time conditions under which the short path gives correctly rounded quotients.

        Conditions on the divisor precede those on the dividends, so that quotients may reuse registers.
        """
        size = self.b.op("absolute", divisor)
        yield self.is_least(divisor, _NORMAL)
        yield self.b.op("less_equal", size, self.float32(0.5 / _NORMAL))
        least, most = (self.b.op("multiply", size, self.float32(v)) for v in (2 * _NORMAL, 0.5 / _NORMAL))
        exact, zero = self.float32(_LEAST), self.float32(0)
        least = self.b.op("where", self.b.op("less", exact, least), least, exact)
        # masks produce many zeros; with a negative divisor, the short path gives their quotients the wrong sign
        positive = self.b.op("less", zero, divisor)
        for dividend in dividends:
            magnitude = self.b.op("absolute", dividend)
            nothing = self.b.op("bitwise_and", self.b.op("equal", dividend, zero), positive)
            yield self.b.op("bitwise_or", self.b.op("less_equal", least, magnitude), nothing)
            yield self.b.op("less", magnitude, most)

    def reciprocal(self, b: Value) -> Value:
        """Return 1/b, correctly rounded unless intermediate results overflow or underflow."""
        r = self.rough_reciprocal(b)
        return r if b in self.constants else self.fma(self.residual(b, r), r, r)

    def rough_reciprocal(self, b: Value) -> Value:
        """Return an approximation of 1/b, or the correctly rounded 1/b if b is a constant."""
        known = self.constants.get(b)
        if known is None:
            return self.approximate("reciprocal", b)
        with np.errstate(all="ignore"):
            return self.float32(1 / np.float64(known))

    def quotient(self, a: Value, b: Value, r: Value) -> Value:
        """Return a/b, provided that no intermediate result overflows or underflows.

        `r` is 1/b. The remainder is subtracted from 0, so that zeros keep their sign for positive b.
        """
        q = self.b.op("multiply", a, r)
        return self.fma(self.fma(b, q, self.b.op("negative", a)), self.b.op("negative", r), q)

    def wide_quotients(self, pairs: Sequence[tuple[Value, ...]]) -> Sequence[Value]:
        """Return quotients of arbitrary numbers, computed in float64."""
        divisors = {b for _, b in pairs}
        if len(divisors) > 1:
            return self.in_loop(lambda a, b: self.wide_quotient(a, self.wide_reciprocal(b)), pairs)
        parts = self.wide_reciprocal(divisors.pop())
        return [self.wide_quotient(a, parts) for a, _ in pairs]

    def wide_quotient(self, a: Value, parts: tuple[Value, Value]) -> Value:
        """Return a/b, given 1/b as a sum of two parts."""
        high, low = parts
        wide = self.b.cast(a, _FLOAT64)
        return self.b.cast(self.fma(wide, high, self.b.op("multiply", wide, low)), _FLOAT32)

    def wide_reciprocal(self, b: Value) -> tuple[Value, Value]:
        """Return two float64 numbers whose sum is 1/b with a relative error of at most 2^-59.

        They have the same sign, so that an infinite dividend gives infinity.
        """
        known = self.constants.get(b)
        wide = self.b.cast(b, _FLOAT64)
        if known is not None:
            with np.errstate(all="ignore"):
                rough = self.b.constant(1 / np.float64(known), _FLOAT64)
        else:
            rough = self.approximate("reciprocal", wide)
        # the following steps approach 1/b from below; the start value is below, since the approximation is within 2^-17
        below = self.b.op("multiply", rough, self.b.constant(1 - 2.0**-16, _FLOAT64))
        first = self.residual(wide, below)
        high = self.fma(first, below, below)
        low = self.b.op("multiply", high, self.residual(wide, high))
        # for 0, infinity and NaN the approximation is the reciprocal, and its residual is NaN
        special = self.b.op("not_equal", first, first)
        return self.b.op("where", special, rough, high), self.b.op("where", special, rough, low)

    # -- roots ----------------------------------------------------------------------------------

    def roots(self, numbers: Sequence[tuple[Value, ...]]) -> Sequence[Value]:
        infinity = self.float32(np.inf)
        good = self.all_hold(
            condition
            for (x,) in numbers
            for condition in (self.b.op("less_equal", self.float32(_LEAST), x), self.b.op("less", x, infinity))
        )
        general = partial(self.in_loop, self.scaled_root)
        return self.choose(good, lambda: [self.root(x) for (x,) in numbers], general, numbers)

    def root(self, x: Value) -> Value:
        """Return the square root of x for 2**-100 <= x < inf, and NaN for negative numbers."""
        half = self.float32(0.5)
        y = self.approximate("reciprocal root", x)
        g, h = self.b.op("multiply", x, y), self.b.op("multiply", y, half)
        step = self.fma(self.b.op("negative", h), g, half)
        g, h = self.fma(g, step, g), self.fma(h, step, h)
        return self.fma(self.fma(self.b.op("negative", g), g, x), h, g)

    def narrow_root(self, x: Value) -> Value:
        """Return the square root, in float32, of a float16 value or an integer of at most 16 bits."""
        own = self.is_own_root(x)
        return self.b.op("where", own, x, self.root(x))

    def scaled_root(self, x: Value) -> Value:
        """Return the square root of any float32 number. Very small numbers are multiplied by a power of two, and their roots are scaled back."""
        one, small = self.float32(1), self.b.op("less", x, self.float32(_LEAST))
        up = self.b.op("where", small, self.float32(2.0**100), one)
        down = self.b.op("where", small, self.float32(2.0**-50), one)
        root = self.b.op("multiply", self.root(self.b.op("multiply", x, up)), down)
        return self.b.op("where", self.is_own_root(x), x, root)

    def is_own_root(self, x: Value) -> Value:
        """Return whether `x` is 0 or positive infinity, which equal their square roots."""
        zero, infinite = (self.b.op("equal", x, self.float32(v)) for v in (0, np.inf))
        return self.b.op("bitwise_or", zero, infinite)

    # -- loops ----------------------------------------------------------------------------------

    def in_loop(self, one: Callable[..., Value], given: Sequence[tuple[Value, ...]]) -> Sequence[Value]:
        """Emit a loop that computes one result for each tuple of operands in `given`, and return the results.

        The function `one` emits the body of the loop. This code seldom runs, and a loop keeps it small.
        """
        if len(given) == 1:
            return [one(*given[0])]
        flat, width = [v for values in given for v in values], len(given[0])
        with self.b.loop(self.b.constant(len(given)), "serial", initial=flat, rolled=True) as loop:
            others = loop.carried[1 - width :] if width > 1 else ()  # of the last items: unused after the loop
            loop.yield_(*loop.carried[width:], one(*loop.carried[:width]), *others)
        return loop.results[::width]

    # -- words ----------------------------------------------------------------------------------

    def approximate(self, function: str, x: Value) -> Value:
        return self.b.emit("approximate", (x,), (x.type,), function=function)[0]

    def residual(self, b: Value, r: Value) -> Value:
        """Return 1 - b * r."""
        return self.fma(self.b.op("negative", b), r, self.b.constant(1, b.type))

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        return self.b.op("fma", x, y, z)

    def is_least(self, x: Value, bound: float) -> Value:
        """Emit an "is at least" test, ``abs(x) >= bound``. If `x` is NaN, the result is false."""
        return self.b.op("less_equal", self.float32(bound), self.b.op("absolute", x))

    def all_hold(self, conditions: Iterator[Value]) -> Value:
        return reduce(partial(self.b.op, "bitwise_and"), conditions)

    def float32(self, value: float) -> Value:
        return self.b.constant(value, _FLOAT32)
