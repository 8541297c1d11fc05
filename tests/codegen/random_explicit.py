"""A command that runs random explicit kernels in four ways.

The command is ``python -m tests.codegen.random_explicit --programs 200 --seed 0``.

Each program is interpreted forwards and backwards. It is also compiled for the CPU twice: to loops between barriers,
and to one coroutine per thread. All four results must have the same bits. The program is also compiled for a GPU, and
with ``--assemble`` assembled. Each program has one correct result, since all threads concerned reach each
synchronization point, and no memory that a thread writes between two barriers is accessed by another thread between
them. The command needs its own process, since wrong code may crash it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.codegen.explicit_kernels import ALL, I4, I8, U4, Builder
from tests.codegen.llvm.grids import run
from tests.oracle.interpret import interpret_kernel
from tests.oracle.parse import parse_kernel
from weft.codegen import (
    Kernel,
    Value,
    compile_kernel,
    print_kernel,
    resolve_target,
    verify_kernel,
)
from weft.codegen.llvm import host_threads
from weft.runtime import assemble

OUT = 6  # results per thread
_ROWS = ("add", "subtract", "multiply", "minimum", "maximum", "bitwise_and", "bitwise_xor")


class Writer:
    """A generator of a random kernel, which tracks the int32 values that are uniform in a block."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.block = self.random.choice([1, 5, 32, 33, 64, 96])
        self.grid = self.random.choice([1, 2, 3])
        self.b = b = Builder(f"random{seed}")
        self.x, self.out = b.pointer("x", I4), b.pointer("out", I4, writable=True)
        n = b.scalar("n")
        self.thread = b.one("thread_index", axis=0)
        self.grid_index = b.grid_index()
        self.shared = b.shared(I4, self.block)
        self.counter = b.shared(I4, 1)
        self.cells = [b.local(I4) for _ in range(2)]
        self.function()
        self.same: list[list[Value]] = [[n, b.one("block_index", axis=0), b.constant(3)]]
        self.different: list[list[Value]] = [[self.thread, b.load(self.x, self.grid_index)]]
        for cell in self.cells:
            b.store(cell, b.constant(0), self.pick())
        self.depth, self.labels, self.count = 0, 0, 0

    def function(self) -> None:
        """Write a recursive function with a loop and an early exit."""
        b = self.b
        with b.function("mixed", [I4, I4], [I4]) as (p, q):
            kept = b.local(I4)
            b.store(kept, b.constant(0), q)
            with b.scope("early"), b.loop(b.constant(3), "serial") as loop:
                now = b.load(kept, b.constant(0))
                with b.if_(b.test("greater", now, p)):
                    b.leave("early")
                b.store(kept, b.constant(0), b.op("add", now, b.op("multiply", loop.index, p)))
            with b.if_(b.test("less", q, b.constant(0)), [I4]) as branch:
                near = b.op("bitwise_and", p, b.constant(7))
                branch.yield_(b.call("mixed", near, b.op("bitwise_and", q, b.constant(63)))[0])
            with b.else_() as branch:
                branch.yield_(b.load(kept, b.constant(0)))
            b.yield_(*branch.results)

    # -- values ---------------------------------------------------------------------------

    def pick(self, same: bool = False) -> Value:
        """Return an existing value. If `same`, the value is uniform in the block."""
        pools = [*self.same] if same else [*self.same, *self.different, *self.different]
        return self.random.choice([v for pool in pools for v in pool])

    def compute(self, same: bool) -> Value:
        """Write a random operation into the program, and return the value that the operation computes."""
        b = self.b
        x, y = self.pick(same), self.pick(same)
        match self.random.randrange(5):
            case 0:
                made = b.op("where", self.test(same), x, y)
            case 1:
                made = b.call("mixed", b.op("bitwise_and", x, b.constant(31)), y)[0]
            case 2:
                made = b.cast(b.op("right_shift", b.cast(x, I8), b.constant(2, I8)), I4)
            case _:
                made = b.op(self.random.choice(_ROWS), x, y)
        (self.same if same else self.different)[-1].append(made)
        return made

    def test(self, same: bool) -> Value:
        """Write a comparison and return its result."""
        name = self.random.choice(["less", "greater_equal", "equal", "not_equal"])
        bits = self.b.op("bitwise_and", self.pick(same), self.b.constant(self.random.choice([1, 3, 7])))
        return self.b.test(name, bits, self.b.constant(self.random.randrange(3)))

    # -- statements -----------------------------------------------------------------------

    def body(self, meets: bool, length: int) -> None:
        """Write `length` random statements into a nested scope. `meets` tells whether all threads of the block execute the scope."""
        self.same.append([])
        self.different.append([])
        self.depth += 1
        for _ in range(length):
            if self.b.ended:
                break
            self.statement(meets)
        self.depth -= 1
        self.same.pop()
        self.different.pop()

    def statement(self, meets: bool) -> None:
        """Write one random statement."""
        flat: list[Callable[[bool], object]] = [
            lambda m: self.compute(False),
            lambda m: self.compute(m),
            self.keep,
            self.recall,
            self.write,
        ]
        met = [
            self.exchange,
            self.exchange,
            self.count_up,
            self.block_vote,
            self.shuffle,
            self.fold,
            self.part_of_a_warp,
        ]
        nested = [self.branch, self.branch, self.loop, self.scope]
        kinds = flat + (met if meets else []) + (nested if self.depth < 4 else [])
        self.random.choice(kinds)(meets)

    def keep(self, meets: bool) -> None:
        """Add a store statement to the random program. It writes a value to a local variable."""
        self.b.store(self.random.choice(self.cells), self.b.constant(0), self.pick())

    def recall(self, meets: bool) -> None:
        """Add a load from a local variable to the random program."""
        self.different[-1].append(self.b.load(self.random.choice(self.cells), self.b.constant(0)))

    def write(self, meets: bool) -> None:
        """Write a statement that adds a value to one of the thread's results."""
        b = self.b
        at = b.op("add", b.op("multiply", self.grid_index, b.constant(OUT)), b.constant(self.random.randrange(OUT)))
        b.store(self.out, at, b.op("add", b.load(self.out, at), self.pick()))

    def branch(self, meets: bool) -> None:
        """Write a branch. Its condition is uniform if the branch contains barriers."""
        same = meets and self.random.random() < 0.6
        with self.b.if_(self.test(same)):
            self.body(same, self.random.randrange(1, 4))
        if self.random.random() < 0.6:
            with self.b.else_():
                self.body(same, self.random.randrange(1, 4))

    def loop(self, meets: bool) -> None:
        """Write a loop with a carried value."""
        same = meets and self.random.random() < 0.7
        b = self.b
        stop = b.op("bitwise_and", self.pick(same), b.constant(3))
        with b.loop(stop, "serial", initial=(self.pick(same),), step=self.random.choice([1, 2])) as loop:
            (self.same if same else self.different).append([loop.index, *loop.carried])
            self.body(same, self.random.randrange(1, 4))
            loop.yield_(b.op("add", loop.carried[0], self.pick(same)))
            (self.same if same else self.different).pop()
        (self.same if same else self.different)[-1].append(loop.results[0])

    def scope(self, meets: bool) -> None:
        """Add a loop to the random program. The loop ends when a counter reaches zero, or when a condition in the middle of the body holds."""
        same = meets and self.random.random() < 0.7
        b = self.b
        label, left = f"way{self.labels}", b.local(I4)
        self.labels += 1
        b.store(left, b.constant(0), b.op("bitwise_and", self.pick(same), b.constant(3)))
        with b.scope(label), b.repeat():
            turns = b.load(left, b.constant(0))
            (self.same if same else self.different)[-1].append(turns)
            with b.if_(b.test("less_equal", turns, b.constant(0))):
                b.leave(label)
            b.store(left, b.constant(0), b.op("subtract", turns, b.constant(1)))
            self.body(same, self.random.randrange(1, 3))
            with b.if_(self.test(same)):
                if self.random.random() < 0.5:
                    self.body(same, 1)
                b.leave(label)
            self.body(same, self.random.randrange(1, 3))
            (self.same if same else self.different)[-1].remove(turns)

    def exchange(self, meets: bool) -> None:
        """Write an exchange of values between threads through shared memory."""
        b = self.b
        b.store(self.shared, self.thread, self.pick())
        b.emit("barrier")
        far = b.op("add", self.thread, b.constant(self.random.randrange(self.block)))
        taken = b.load(self.shared, b.op("remainder", far, b.constant(self.block)))
        b.emit("barrier")
        self.different[-1].append(taken)

    def count_up(self, meets: bool) -> None:
        """Add code to the random program in which all threads of a block update a shared counter atomically."""
        b, zero = self.b, self.b.constant(0)
        with b.if_(b.test("equal", self.thread, zero)):
            b.store(self.counter, zero, zero)
        b.emit("barrier")
        b.emit("atomic", (self.counter, zero, self.pick()), (I4,), kind=self.random.choice(["add", "bitwise_xor"]))
        b.emit("barrier")
        total = b.load(self.counter, zero)
        b.emit("barrier")
        self.same[-1].append(total)

    def block_vote(self, meets: bool) -> None:
        """Add an operation like CUDA's ``__syncthreads_count`` to the random program."""
        kind = self.random.choice(["count", "and", "or"])
        self.same[-1].append(self.b.one("barrier_vote", (self.test(False),), kind=kind))

    def shuffle(self, meets: bool) -> None:
        """Add a warp shuffle to the random program if all warps are full. In a partial warp, a shuffle could read from a lane that does not exist."""
        b = self.b
        if self.block % 32:
            return
        lane = b.op("bitwise_and", self.pick(), b.constant(31))
        mode, width = self.random.choice(["idx", "up", "down", "xor"]), self.random.choice([8, 16, 32])
        moved = b.one("shuffle", (b.constant(ALL, U4), self.pick(), lane), mode=mode, width=width)
        self.different[-1].append(moved)

    def fold(self, meets: bool) -> None:
        """Write a reduction or a vote of a warp."""
        b, full = self.b, self.b.constant(ALL, U4)
        if self.random.random() < 0.5:
            made = b.cast(b.one("vote", (full, self.test(False)), U4, kind="ballot"), I4)
        else:
            made = b.one("warp_reduce", (full, self.pick()), kind=self.random.choice(["add", "minimum", "bitwise_or"]))
        self.different[-1].append(made)

    def part_of_a_warp(self, meets: bool) -> None:
        """Write a reduction and a barrier among some lanes of each warp."""
        b = self.b
        lanes = self.random.choice([1, 7, 16])
        mask = b.constant(2**lanes - 1, U4)
        value = self.pick()
        with b.if_(b.test("less", b.one("lane_index"), b.constant(lanes))):
            folded = b.one("warp_reduce", (mask, value), kind="maximum")
            self.b.store(self.cells[0], b.constant(0), folded)
            b.emit("warp_barrier", (mask,))

    def finish(self) -> Kernel:
        """Write the whole kernel."""
        with self.b.scope("kernel"):
            self.body(True, self.random.randrange(4, 10))
            if self.random.random() < 0.3:
                with self.b.if_(self.test(False)):
                    self.b.leave("kernel")
                self.body(False, 2)
        self.recall(True)
        self.write(True)
        return self.b.finish()


def check(seed: int, assembled: bool = False) -> None:
    """Run a random program in four ways, and compare the results: interpreted in two thread orders, and compiled for
    the CPU in two ways.

    The orders are forward and backward. The compiled threads are loops between barriers, or coroutines. Raise an error
    if the results differ. The program is also compiled for a GPU and, if `assembled`, assembled.
    """
    writer = Writer(seed)
    kernel = writer.finish()
    verify_kernel(kernel)
    text = print_kernel(kernel)
    assert print_kernel(parse_kernel(text)) == text
    threads = writer.block * writer.grid
    x = np.random.default_rng(seed).integers(-9, 40, threads).astype(np.int32)

    def launched(function: Callable[[list[Any]], None]) -> np.ndarray:
        out = np.zeros(threads * OUT, np.int32)
        function([x, out, seed % 11])
        return out

    grid, block = (writer.grid,), (writer.block,)
    wanted = launched(lambda given: interpret_kernel(kernel, given, grid=grid, block=block))
    back = launched(lambda given: interpret_kernel(kernel, given, grid=grid, block=block, backwards=True))
    np.testing.assert_array_equal(back, wanted, err_msg=f"seed {seed}: backwards")
    found = launched(lambda given: run(kernel, given, grid, block))
    np.testing.assert_array_equal(found, wanted, err_msg=f"seed {seed}: compiled for the CPU")
    with patch.object(host_threads, "split_at_barriers", lambda kernel: None):
        found = launched(lambda given: run(kernel, given, grid, block))
    np.testing.assert_array_equal(found, wanted, err_msg=f"seed {seed}: a coroutine a thread")
    arch = writer.random.choice(["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
    code = compile_kernel(kernel, resolve_target(arch))
    if assembled:
        assemble(code.code, arch)


def main() -> int:
    """Run the random programs. Return the number of failures as an exit status, which is at most 100."""
    parser = argparse.ArgumentParser(prog="tests.codegen.random_explicit")
    parser.add_argument("--programs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--assemble", action="store_true")
    options = parser.parse_args()
    bad = 0
    for seed in range(options.seed, options.seed + options.programs):
        try:
            check(seed, options.assemble)
        except Exception as error:  # every error is a finding
            bad += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{options.programs} programs, {bad} differ")
    return min(bad, 100)


if __name__ == "__main__":
    raise SystemExit(main())
