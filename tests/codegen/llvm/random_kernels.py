"""A generator of random explicit kernels without races.

The kernels have variables, nested control flow, and exchanges through shared memory and within warps.

Invariant: all threads that a synchronization point synchronizes, and that have not returned, reach it. The compiler may
be unable to prove this.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from weft.codegen import Kernel, KernelBuilder, Value

INT = np.dtype(np.int32)
OPERATIONS = ("add", "subtract", "multiply", "bitwise_xor", "minimum", "maximum")
COMPARISONS = ("less", "greater_equal", "equal", "not_equal")
FULL = 0xFFFFFFFF


@dataclass
class Context:
    """The context in which a statement is generated."""

    together: bool = True  # executed by all threads of the block
    warps: bool = True  # executed by all threads of a warp, or by none
    depth: int = 0
    loops: tuple[tuple[str, bool], ...] = ()  # label, and whether only some threads may leave the loop
    inside: str = ""  # label of a loop that the same warps have entered


class Program:
    """A generator of one random kernel."""

    def __init__(self, seed: int, threads: int) -> None:
        self.rng = random.Random(seed)
        self.b = b = KernelBuilder(
            "random", random.Random(seed).choice([np.int32, np.int64]), "threaded", explicit=True
        )
        self.threads = threads
        self.x = b.pointer("x", INT)
        self.out = b.pointer("out", INT, writable=True)
        self.n = b.scalar("n", INT)
        self.zero = b.constant(0)
        self.own = [b.local(INT) for _ in range(4)]
        self.common = [b.local(INT) for _ in range(2)]
        self.array = b.local(INT, 4)
        self.shared = b.shared(INT, threads)
        self.count = 0

    def build(self) -> Kernel:
        b = self.b
        with b.scope("kernel"):
            self.t = b.emit("thread_index", (), (b.kernel.index_dtype,), axis=0)[0]
            block = b.emit("block_index", (), (b.kernel.index_dtype,), axis=0)[0]
            size = b.emit("block_size", (), (b.kernel.index_dtype,), axis=0)[0]
            self.i = b.op("add", b.op("multiply", block, size), self.t)
            self.uniform = [self.n, b.cast(block, INT), b.constant(3, INT)]
            self.varying = [b.cast(self.t, INT), b.cast(self.i, INT), b.load(self.x, self.i)]
            for k, variable in enumerate(self.own):
                b.store(variable, self.zero, self.varying[k % 3])
            for variable in self.common:
                b.store(variable, self.zero, self.uniform[0])
            with b.loop(b.constant(4), "serial") as loop:
                b.store(self.array, loop.index, b.cast(loop.index, INT))
            b.store(self.shared, self.t, self.varying[0])
            b.emit("barrier")
            self.statements(Context(), self.rng.randint(4, 8))
            total = b.load(self.own[0], self.zero)
            for variable in (*self.own[1:], *self.common):
                total = b.op("add", b.op("multiply", total, b.constant(31, INT)), b.load(variable, self.zero))
            with b.loop(b.constant(4), "serial") as loop:
                b.store(self.own[0], self.zero, b.op("bitwise_xor", total, b.load(self.array, loop.index)))
            b.store(self.out, self.i, b.op("add", total, b.load(self.own[0], self.zero)))
        return b.finish()

    # -- expressions ----------------------------------------------------------------------------

    def value(self, varying: bool, depth: int = 2) -> Value:
        b, rng = self.b, self.rng
        if depth and rng.random() < 0.6:
            parts = [self.value(varying, depth - 1) for _ in range(2)]
            return b.op(rng.choice(OPERATIONS), *parts)
        if varying and rng.random() < 0.7:
            kind = rng.randrange(3)
            if kind == 0:
                return rng.choice(self.varying)
            if kind == 1:
                return b.load(self.array, b.constant(rng.randrange(4)))
            return b.load(rng.choice(self.own), self.zero)
        if rng.random() < 0.5:
            return b.load(rng.choice(self.common), self.zero)
        return rng.choice([*self.uniform, b.constant(rng.randint(-5, 9), INT)])

    def condition(self, varying: bool) -> Value:
        return self.b.op(
            self.rng.choice(COMPARISONS),
            self.b.op("bitwise_and", self.value(varying), self.b.constant(7, INT)),
            self.b.constant(self.rng.randrange(8), INT),
            dtype=bool,
        )

    # -- statements -----------------------------------------------------------------------------

    def statements(self, context: Context, count: int) -> None:
        for _ in range(count):
            if self.b.ended:
                return
            self.statement(context)

    def statement(self, context: Context) -> None:
        rng = self.rng
        choices = [self.assign, self.assign]
        if context.depth < 3:
            choices += [self.branch, self.loop, self.loop]
        if context.together:
            choices += [self.exchange, self.votes]
        if context.warps:
            choices += [self.warp, self.some_warps]
        if context.loops:
            choices.append(self.leave)
        if context.together and context.depth < 2 and rng.random() < 0.3:
            choices.append(self.give_up)
        rng.choice(choices)(context)

    def assign(self, context: Context) -> None:
        if context.together and self.rng.random() < 0.4:
            self.b.store(self.rng.choice(self.common), self.zero, self.value(False))
        elif self.rng.random() < 0.2:
            self.b.store(self.array, self.b.constant(self.rng.randrange(4)), self.value(True))
        else:
            self.b.store(self.rng.choice(self.own), self.zero, self.value(True))

    def branch(self, context: Context) -> None:
        varying = self.rng.random() < 0.5
        inner = Context(
            context.together and not varying, context.warps and not varying, context.depth + 1, context.loops
        )
        with self.b.if_(self.condition(varying)):
            self.statements(inner, self.rng.randint(1, 3))
        if self.rng.random() < 0.5:
            with self.b.else_():
                self.statements(inner, self.rng.randint(1, 3))

    def some_warps(self, context: Context) -> None:
        """Emit a branch whose condition is uniform in each warp."""
        if context.depth > 2:
            return
        b = self.b
        warp = b.cast(b.op("right_shift", self.t, b.constant(5)), INT)
        part = b.op("bitwise_xor", warp, b.load(self.rng.choice(self.common), self.zero))
        odd = b.op("bitwise_and", part, b.constant(1, INT))
        inner = Context(False, True, context.depth + 1, context.loops)
        with b.if_(b.op("equal", odd, b.constant(self.rng.randrange(2), INT), dtype=bool)):
            self.statements(inner, self.rng.randint(1, 4))
        if self.rng.random() < 0.4:
            with b.else_():
                self.statements(inner, self.rng.randint(1, 3))

    def loop(self, context: Context) -> None:
        b, rng = self.b, self.rng
        self.count += 1
        label = f"loop{self.count}"
        apart = rng.random() < 0.4  # some threads may leave the loop, so it contains no barriers
        loops = (*context.loops, (label, apart))
        inner = Context(context.together and not apart, context.warps and not apart, context.depth + 1, loops, label)
        if rng.random() < 0.5:
            bound = self.value(apart, 1)
            limit = b.cast(b.op("bitwise_and", bound, b.constant(3, INT)), b.kernel.index_dtype)
            with b.scope(label), b.loop(limit, "serial") as made:
                kept = self.varying if apart or not context.warps else self.uniform
                kept.append(b.cast(made.index, INT))
                self.statements(inner, rng.randint(1, 4))
                kept.pop()
            return
        turn = b.local(INT)
        b.store(turn, self.zero, b.constant(0, INT))
        with b.scope(label), b.repeat():
            k = b.load(turn, self.zero)
            with b.if_(b.op("greater_equal", k, b.constant(rng.randint(1, 3), INT), dtype=bool)):
                b.leave(label)
            b.store(turn, self.zero, b.op("add", k, b.constant(1, INT)))
            self.statements(inner, rng.randint(1, 4))

    def leave(self, context: Context) -> None:
        label, apart = self.rng.choice(context.loops)
        later = context.loops[[name for name, _ in context.loops].index(label) :]
        if not all(free for _, free in later) and not (context.together or (context.warps and context.inside == label)):
            return
        with self.b.if_(self.condition(apart and all(free for _, free in later))):
            self.b.leave(label)

    def give_up(self, context: Context) -> None:
        """Emit an exit from the kernel under a condition that may differ between threads.

        In loops, half of the calls emit nothing.
        """
        if context.loops and self.rng.random() < 0.5:
            return
        with self.b.if_(self.condition(True)):
            self.b.store(self.out, self.i, self.b.load(self.own[1], self.zero))
            self.b.leave("kernel")

    def exchange(self, context: Context) -> None:
        b = self.b
        b.store(self.shared, self.t, self.value(True))
        b.emit("barrier")
        near = b.op("add", self.t, b.constant(self.rng.randrange(1, self.threads)))
        near = b.op("remainder", near, b.constant(self.threads))
        b.store(self.rng.choice(self.own), self.zero, b.load(self.shared, near))
        b.emit("barrier")

    def warp(self, context: Context) -> None:
        b, rng = self.b, self.rng
        mask = b.constant(FULL, np.uint32)
        match rng.randrange(4):
            case 0:
                lane = b.constant(rng.randrange(32), INT)
                mode, width = rng.choice(["idx", "up", "down", "xor"]), rng.choice([32, 16, 4])
                operands = (mask, self.value(True), lane)
                (result,) = b.emit("shuffle", operands, (INT,), mode=mode, width=width)
            case 1:
                kind = rng.choice(["all", "any", "eq"])
                (vote,) = b.emit("vote", (mask, self.condition(True)), (np.dtype(bool),), kind=kind)
                result = b.cast(vote, INT)
            case 2:
                (ballot,) = b.emit("vote", (mask, self.condition(True)), (np.dtype(np.uint32),), kind="ballot")
                result = b.cast(ballot, INT)
            case _:
                kind = rng.choice(["add", "minimum", "maximum", "bitwise_xor"])
                (result,) = b.emit("warp_reduce", (mask, self.value(True)), (INT,), kind=kind)
        b.store(rng.choice(self.own), self.zero, result)

    def votes(self, context: Context) -> None:
        kind = self.rng.choice(["count", "and", "or"])
        (result,) = self.b.emit("barrier_vote", (self.condition(True),), (INT,), kind=kind)
        target = self.common if self.rng.random() < 0.5 else self.own
        self.b.store(self.rng.choice(target), self.zero, result)
