"""Random kernels generated from a grammar. The results of compiled code are compared with those of plain Python.

A kernel runs in a grid of one or more blocks, with one or more axes. For every dtype, a kernel has an input array
x<dtype>, an output o<dtype> with four elements per thread, and a shared array s<dtype>. A thread writes only its own
outputs, and reads shared elements of other threads only between barriers. In a grid-stride loop, a thread accesses its
own elements of the array e<dtype>. The array c<dtype> is changed only by one kind of atomic operation, whose total does
not depend on the order. All participating threads reach every barrier or warp operation. Each kernel therefore has one
correct result. Variables keep the dtype of their first value. A kernel is compiled to loops over the threads of a block
(device cpu) and to coroutines that run in reverse order (simt::backward).
"""

from __future__ import annotations

import linecache
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

import weft
from weft.runtime import override

DTYPES = ("float32", "float64", "int32", "int64", "uint32", "uint8", "int16", "float16")
SHUFFLED = ("float32", "float64", "int32", "int64", "uint32")
# Blocks, each with the grids in which it may run.
BLOCKS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (8, (1, 5)),
    (33, (1, 3)),
    (64, (1, 2)),
    (40, (3,)),
    ((8, 5), (1, (2, 3))),
    ((16, 2), ((3, 2),)),
    ((4, 3, 3), (1, (2, 1, 2))),
)
LENGTH = 64  # elements of every input and shared array, and maximum number of threads of a block
STRIDED = (7, 19)  # shape of the array of which a thread accesses some elements in grid-stride loops
TOTALS = {"int32": "add sub min max", "int64": "add max xor", "uint32": "add min and_ or_"}  # atomics of each dtype
DEVICES = ("cpu", "simt::backward")

HEAD = """import math
import numpy as np
from weft import cuda

def ordered(a, b):
    if a > b:
        return a, b - a
    elif a == b:
        return b, a
    return b, a - b

def block_fold(held, t, n):
    step = 32
    while step > 0:
        if t < step and t + step < n:
            held[t] += held[t + step]
        cuda.syncthreads()
        step //= 2
    return held[0]

"""


class Generator:
    """A generator of the source text of a random kernel."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.loops = 0
        self.together = True  # whether all threads of the block execute the current statement
        self.count = 0
        self.whole = ["t"]  # names of available Python ints
        self.variables: dict[str, list[str]] = {dtype: [] for dtype in DTYPES}
        self.block, grids = self.random.choice(BLOCKS)
        self.grid = self.random.choice(grids)
        self.axes = len(self.block) if isinstance(self.block, tuple) else 1
        self.threads = int(np.prod(self.block))
        self.own = self.random.choice(("y, x", "x, y")) if self.axes == 2 else "g"  # the thread's row of the outputs
        self.masks = self.chance(0.4)  # whether lanes of a warp diverge around warp operations, which needs coroutines
        self.atomics = {dtype: self.random.choice(kinds.split()) for dtype, kinds in TOTALS.items()}

    # -- text --

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def inside(self, head: str, together: bool = False) -> Iterator[None]:
        """Write the first line of a compound statement, such as an ``if``. Lines that the caller writes in the ``with`` block become its body.

        Variables that the body defines are not used after the body. If `together`, all threads of the block execute
        the body together, so that it may contain barriers.
        """
        self.line(head)
        self.depth += 1
        before, self.together = self.together, self.together and together
        kept = {dtype: list(names) for dtype, names in self.variables.items()}
        yield
        self.variables = kept
        self.together = before
        self.depth -= 1

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def dtype(self) -> str:
        return self.random.choice(DTYPES)

    # -- expressions --

    def constant(self, dtype: str) -> str:
        words = {"f": "0.5 2.0 -1.25 3 0.1 1e3", "u": "1 2 3 7", "i": "1 2 3 -1 7 -5"}
        return self.random.choice(words[dtype[0]].split())

    def index(self) -> str:
        pick = self.random
        return pick.choice(
            (
                "t",
                f"(t + {pick.randint(0, 9)}) % {LENGTH}",
                str(pick.randint(-LENGTH, LENGTH - 1)),
                f"abs({pick.choice(self.whole)} * {pick.randint(1, 3)}) % {LENGTH}",
            )
        )

    def condition(self, depth: int = 2) -> str:
        pick = self.random
        kind = pick.randrange(7)
        if kind == 0:
            return f"t % {pick.randint(2, 4)} == {pick.randint(0, 2)}"
        if depth and kind in (1, 2):
            return f"({self.condition(depth - 1)} {pick.choice(('and', 'or'))} {self.condition(depth - 1)})"
        if depth and kind == 3:
            return f"(not {self.condition(depth - 1)})"
        dtype = self.dtype()
        parts = [self.value(dtype, 1) for _ in range(3 if kind == 4 else 2)]
        text = parts[0]
        for part in parts[1:]:
            text += f" {pick.choice(('<', '<=', '>', '>=', '==', '!='))} {part}"
        return f"({text})"

    def value(self, dtype: str, depth: int) -> str:
        """Return a random expression of the given dtype."""
        pick = self.random
        if depth <= 0 or self.chance(0.15):
            if self.variables[dtype] and self.chance(0.4):
                return pick.choice(self.variables[dtype])
            return pick.choice((f"x{dtype}[{self.index()}]", f"np.{dtype}({self.constant(dtype)})", f"x{dtype}[t]"))

        def part() -> str:
            return self.value(dtype, depth - 1)

        forms: list[Callable[[], str]] = [
            lambda: f"({part()} {pick.choice('+-*')} {part()})",
            lambda: f"({part()} {pick.choice('+-*')} {part()})",
            lambda: f"({part()} {pick.choice('+-*')} {self.constant(dtype)})",
            lambda: f"({self.constant(dtype)} {pick.choice('+-*')} {part()})",
            lambda: f"({part()} if {self.condition(1)} else {part()})",
            lambda: f"{pick.choice(('min', 'max'))}({part()}, {part()})",
            lambda: f"({part()} {pick.choice(('//', '%'))} {part()})",
            lambda: f"np.{dtype}({self.value(self.dtype(), depth - 1)})",
            lambda: f"abs({part()})" if dtype[0] != "u" else part(),
            lambda: f"(-{part()})" if dtype[0] != "u" else f"(~{part()})",
        ]
        if dtype[0] == "f":
            forms += [
                lambda: f"({part()} / {part()})",
                lambda: f"{pick.choice(('math.sqrt', 'np.sqrt', 'math.fabs', 'np.floor', 'np.trunc'))}({part()})",
                lambda: f"np.where({self.condition(1)}, {part()}, {part()})",
            ]
        else:
            forms += [
                lambda: f"({part()} {pick.choice('&|^')} {part()})",
                lambda: f"({part()} {pick.choice(('<<', '>>'))} {pick.randint(0, 7)})",
                lambda: f"np.{dtype}(cuda.{pick.choice(('popc', 'clz', 'ffs'))}({part()}))",
            ]
        return pick.choice(forms)()

    def uniform(self) -> str:
        """Return the text of a condition that has the same value in all threads of the block."""
        dtype = self.dtype()
        where = self.random.randrange(LENGTH)
        return self.random.choice(
            (
                f"x{dtype}[{where}] > {self.constant(dtype)}",
                f"cuda.syncthreads_count({self.condition(1)}) % 2 == 0",
                f"cuda.syncthreads_or({self.condition(1)})",
                f"len(x{dtype}) > {where}",
            )
        )

    # -- statements --

    def body(self, most: int, depth: int) -> None:
        for _ in range(self.random.randint(1, most)):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        kinds = [self.assign] * 4
        if depth > 0:
            kinds += [
                lambda: self.branch(depth),
                lambda: self.branch(depth),
                lambda: self.count_loop(depth),
                lambda: self.while_loop(depth),
                lambda: self.match(),
                lambda: self.strided_loop(depth),
                self.count_total,
                self.fold,
                self.local,
                self.view,
                self.call,
            ]
        if self.together:
            kinds += [self.exchange, self.share_totals, self.shuffle, self.vote, self.reduce]
            kinds += [self.masked if self.masks else self.warp_branch] * 2
            if depth > 0:
                kinds += [lambda: self.uniform_flow(depth)] * 2
        self.random.choice(kinds)()

    def store(self, dtype: str, value: str, operator: str = "=") -> None:
        self.line(f"o{dtype}[{self.own}, {self.random.randrange(4)}] {operator} {value}")

    def assign(self) -> None:
        pick, dtype = self.random, self.dtype()
        known = self.variables[dtype]
        kind = pick.randrange(5)
        if kind == 0:
            made = self.name("v")
            self.line(f"{made} = np.{dtype}({self.value(dtype, 3)})")
            known.append(made)
        elif kind == 1 and known:
            self.line(f"{pick.choice(known)} {pick.choice(('+=', '-=', '*='))} {self.value(dtype, 2)}")
        elif kind == 2 and known:
            self.line(f"{pick.choice(known)} = {self.value(dtype, 3)}")
        elif kind == 3 and len(known) > 1:
            one, other = pick.sample(known, 2)
            self.line(f"{one}, {other} = {other}, {self.value(dtype, 2)}")
        else:
            self.store(dtype, self.value(dtype, 3), pick.choice(("=", "=", "+=", "*=")))

    def branch(self, depth: int) -> None:
        with self.inside(f"if {self.condition()}:"):
            self.body(3, depth - 1)
            if self.loops and self.chance(0.3):
                self.line(self.random.choice(("break", "continue")))
        if self.chance(0.3):
            with self.inside(f"elif {self.condition()}:"):
                self.body(2, depth - 1)
        if self.chance(0.5):
            with self.inside("else:"):
                self.body(2, depth - 1)

    @contextmanager
    def loop(self, head: str, counter: str) -> Iterator[None]:
        with self.inside(head):
            self.loops += 1
            self.whole.append(counter)
            yield
            self.whole.remove(counter)
            self.loops -= 1

    def count_loop(self, depth: int) -> None:
        pick, counter = self.random, self.name("i")
        span = pick.choice(
            (
                f"{pick.randint(1, 4)}",
                f"{pick.randint(0, 3)}, {pick.randint(3, 7)}, {pick.randint(1, 3)}",
                f"{pick.randint(3, 6)}, {pick.randint(-1, 2)}, -{pick.randint(1, 2)}",
                f"t % {pick.randint(2, 4)}",
            )
        )
        with self.loop(f"for {counter} in range({span}):", counter):
            self.body(3, depth - 1)
        if self.chance(0.2):
            with self.inside("else:"):
                self.assign()

    def while_loop(self, depth: int) -> None:
        pick, counter = self.random, self.name("w")
        also = f" and {self.condition(1)}" if self.chance(0.4) else ""
        self.line(f"{counter} = 0")
        with self.loop(f"while {counter} < {pick.randint(1, 5)}{also}:", counter):
            self.line(f"{counter} += {pick.randint(1, 2)}")
            self.body(3, depth - 1)

    def match(self) -> None:
        with self.inside("match t % 4:"):
            with self.inside("case 0 | 2:"):
                self.assign()
            with self.inside(f"case m if m > {self.random.randint(0, 2)}:"):
                self.assign()
            with self.inside("case _:"):
                self.assign()

    def fold(self) -> None:
        """Write a loop that computes a sum. The sum starts as a Python scalar, and takes the dtype of its operands."""
        dtype, total = self.dtype(), self.name("a")
        counter = f"{total}i"
        self.line(f"{total} = {'0.0' if dtype[0] == 'f' and self.chance(0.5) else '0'}")
        with self.loop(
            f"for {counter} in range({self.random.choice(('3', '5', f't % {LENGTH}', f'len(x{dtype})'))}):", counter
        ):
            if self.chance(0.3):
                self.line(f"if {self.condition(1)}: {self.random.choice(('break', 'continue'))}")
            self.line(f"{total} {self.random.choice(('+=', '-='))} {self.value(dtype, 2)}")
        self.store(dtype, total)

    def strided_loop(self, depth: int) -> None:
        """Write a grid-stride loop over the elements of an array."""
        dtype, number = self.dtype(), self.name("k")
        if self.axes == 2:
            names = f"{number}y", f"{number}x"
            first, step = ("y", "x"), ("cuda.gridsize(2)[1]", "cuda.gridsize(2)[0]")
        else:
            names = (number,)
            first, step = ("g",), ("cuda.gridsize(1)" if self.axes == 1 else "n",)
        element = f"e{dtype}[{', '.join(names)}]"
        stops = [f"e{dtype}.shape[{axis}]" for axis in range(len(names))]
        with ExitStack() as open_loops:
            for name, start, stop, by in zip(names, first, stops, step, strict=True):
                if self.chance(0.6):
                    open_loops.enter_context(self.loop(f"for {name} in range({start}, {stop}, {by}):", name))
                    continue
                self.line(f"{name} = {start}")
                open_loops.enter_context(self.inside(f"while {name} < {stop}:"))
                open_loops.callback(self.line, f"{name} += {by}")
            mine = self.variables[dtype]
            self.variables[dtype] = [*mine, element]
            text = self.value(dtype, 2)
            self.variables[dtype] = mine
            self.line(f"{element} {self.random.choice(('=', '+=', '-='))} {text}")
            if self.chance(0.5):
                self.count_total()
            loops, self.loops = self.loops, 0  # (``continue`` would skip the increment)
            if depth > 1:
                self.body(2, 1)
            self.loops = loops

    def count_total(self) -> None:
        """Write an atomic operation on an array that all threads of the grid change."""
        dtype = self.random.choice(tuple(TOTALS))
        index = self.random.choice((self.index(), f"abs(int({self.value('int32', 1)})) % {LENGTH}", "t", "3"))
        value = self.random.choice((self.constant(dtype), self.value(dtype, 1), self.value(dtype, 2)))
        self.line(f"cuda.atomic.{self.atomics[dtype]}(c{dtype}, {index}, np.{dtype}({value}))")

    def local(self) -> None:
        dtype, held = self.dtype(), self.name("l")
        self.line(f"{held} = cuda.local.array((2, 2), np.{dtype})")
        with self.inside(f"for {held}i in range(4):"):
            self.line(f"{held}[{held}i // 2, {held}i % 2] = {self.value(dtype, 1)}")
        self.line(f"{held}[t % 2, {self.random.choice((-1, 0, 1))}] += {self.value(dtype, 2)}")
        with self.inside(f"for {held}j in range(4):"):
            self.line(f"o{dtype}[{self.own}, {held}j] += {held}[{held}j % 2, {held}j // 2]")

    def view(self) -> None:
        pick, dtype, seen = self.random, self.dtype(), self.name("y")
        span = pick.choice((f"{pick.randint(0, 3)}:{pick.randint(5, 8)}", "::-1", "3:20:4", "-9:"))
        self.line(f"{seen} = x{dtype}[{span}]")
        self.store(dtype, f"{seen}[{pick.choice(('0', '1', '-1', 't % 2'))}] + {seen}.size", "+=")
        with self.inside(f"for {seen}k, {seen}e in enumerate({seen}):"):
            self.line(f"if {seen}k % 2 == t % 2:")
            self.line(f"    o{dtype}[{self.own}, {seen}k % 4] = {seen}e")

    def call(self) -> None:
        dtype, one, other = self.dtype(), self.name("p"), self.name("p")
        self.line(f"{one}, {other} = ordered({self.value(dtype, 2)}, {self.value(dtype, 2)})")
        self.store(dtype, one, "+=")
        inner = self.name("g")
        with self.inside(f"def {inner}(a, b={self.constant(dtype)}):"):
            self.line(f"if a > {self.value(dtype, 1)}:")
            self.line("    return a * 2 - b")
            self.line(f"return {self.value(dtype, 1)} + a")
        self.store(dtype, f"{inner}({other}) - {inner}({self.value(dtype, 1)}, b={self.value(dtype, 1)})")

    # -- statements that all threads execute --

    def made(self, dtype: str, text: str) -> None:
        made = self.name("v")
        self.line(f"{made} = {text}")
        self.variables[dtype].append(made)

    def exchange(self) -> None:
        dtype = self.dtype()
        self.line("cuda.syncthreads()")
        self.line(f"s{dtype}[t] = {self.value(dtype, 2)}")
        self.line("cuda.syncthreads()")
        self.made(dtype, f"s{dtype}[(t + {self.random.randint(0, 40)}) % {self.threads}]")

    def share_totals(self) -> None:
        """Generate code in which threads update shared memory with atomic operations. Barriers separate the updates from other accesses."""
        dtype = self.random.choice(("int32", "int64", "uint32"))
        index = f"abs(int({self.value('int32', 1)})) % {self.random.choice((1, 7, self.threads))}"
        self.line("cuda.syncthreads()")
        self.line(f"s{dtype}[t] = {self.value(dtype, 2)}")
        self.line("cuda.syncthreads()")
        self.line(f"cuda.atomic.{self.random.choice(('add', 'xor', 'max'))}(s{dtype}, {index}, {self.value(dtype, 2)})")
        self.line("cuda.syncthreads()")
        self.made(dtype, f"s{dtype}[(t + {self.random.randint(0, 40)}) % {self.threads}]")

    def shuffle(self) -> None:
        dtype = self.random.choice(SHUFFLED)
        name = self.random.choice(("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync"))
        if self.threads % 32:  # a missing lane has no value
            self.made(dtype, f"cuda.shfl_sync(0xFFFFFFFF, {self.value(dtype, 2)}, 0)")
        else:
            width = self.random.choice((4, 16, 32))
            self.made(dtype, f"cuda.{name}(0xFFFFFFFF, {self.value(dtype, 2)}, {self.random.randint(0, 31)}, {width})")

    def masked(self) -> None:
        """Write a branch with warp operations among the lanes that take the same side."""
        pick, chosen, lanes = self.random, self.name("c"), self.name("m")
        self.line(f"{chosen} = {self.condition()}")
        self.line(f"{lanes} = cuda.ballot_sync(0xFFFFFFFF, {chosen})")
        with self.inside(f"if {chosen}:"):
            dtype = pick.choice(("int32", "uint32", "int64"))
            fold = pick.choice(("add", "min", "max", "and", "or", "xor"))
            self.store("int64", f"cuda.{pick.choice(('all', 'any', 'eq'))}_sync({lanes}, {self.condition(1)})")
            self.store(dtype, f"cuda.reduce_{fold}_sync({lanes}, {self.value(dtype, 2)})")
        if self.chance(0.5):
            with self.inside("else:"):
                self.store("uint32", f"cuda.match_any_sync(~{lanes}, t % 3)")

    def warp_branch(self) -> None:
        """Write a branch that each warp takes as a whole. Inside the branch are warp operations, and some threads store their results."""
        pick = self.random
        condition = pick.choice(
            (f"t // 32 == {pick.randrange(-(-self.threads // 32))}", "xint32[t // 32] > 2", "t >= 32")
        )
        with self.inside(f"if {condition}:"):
            for _ in range(pick.randint(1, 2)):
                dtype = pick.choice(("int32", "uint32", "int64"))
                text = f"cuda.shfl_sync(0xFFFFFFFF, {self.value(dtype, 2)}, 0)"
                if self.threads % 32 == 0 and self.chance(0.5):
                    text = f"cuda.reduce_{pick.choice(('add', 'max', 'xor'))}_sync(0xFFFFFFFF, {self.value(dtype, 2)})"
                self.made(dtype, text)
                made = self.variables[dtype][-1]
                guard = f"(t + {pick.randint(0, 3)}) % {pick.randint(2, 5)} == 0"
                with self.inside(f"if {pick.choice((guard, guard, f't < {pick.randrange(self.threads)}'))}:"):
                    self.store(dtype, made)
                self.assign()

    def vote(self) -> None:
        kind = self.random.choice(("count", "and", "or"))
        self.store("int64", f"cuda.syncthreads_{kind}({self.condition()})", "+=")

    def reduce(self) -> None:
        dtype = self.random.choice(("int32", "int64", "uint32", "uint8"))  # sums of these do not depend on the order
        self.line("cuda.syncthreads()")
        self.line(f"s{dtype}[t] = {self.value(dtype, 2)}")
        self.line("cuda.syncthreads()")
        self.made(dtype, f"block_fold(s{dtype}, t, {self.threads})")

    def uniform_flow(self, depth: int) -> None:
        """Write a branch or loop with a uniform condition, whose body may contain barriers."""
        pick, counter = self.random, self.name("u")
        match pick.randrange(4):
            case 0:
                with self.inside(f"if {self.uniform()}:", together=True):
                    self.body(3, depth - 1)
                with self.inside("else:", together=True):
                    self.body(2, depth - 1)
            case 1:
                span = pick.choice(("3", f"abs(int(xint32[{pick.randrange(LENGTH)}])) % 4", "cuda.blockDim.x % 5"))
                with self.inside(f"for {counter} in range({span}):", together=True):
                    self.body(3, depth - 1)
                    if self.chance(0.3):
                        self.line(f"if {self.uniform()}: {pick.choice(('break', 'continue'))}")
            case 2:
                self.line(f"{counter} = 0")
                with self.inside(f"while {counter} < {pick.randint(1, 3)} and {self.uniform()}:", together=True):
                    self.line(f"{counter} += 1")
                    self.body(2, depth - 1)
            case _:
                self.line("cuda.syncthreads()")
                self.line("if t == 0: sint64[0] = 0")
                self.line("cuda.syncthreads()")
                with self.inside(f"while sint64[0] < {pick.randint(1, 3)}:", together=True):
                    self.line("cuda.syncthreads()")
                    self.line("if t == 0: sint64[0] += 1")
                    self.assign()
                    self.line("cuda.syncthreads()")

    def positions(self) -> None:
        """Write statements that assign the thread's indices to variables.

        The index in the block is `t`. The indices in the grid are `g`, or `x` and `y`. With three axes, `n` is the
        number of threads.
        """
        if self.axes == 1:
            self.line("t = cuda.threadIdx.x")
            self.line(f"g = {self.random.choice(('cuda.grid(1)', 't + cuda.blockIdx.x * cuda.blockDim.x'))}")
        elif self.axes == 2:
            self.line("t = cuda.threadIdx.x + cuda.blockDim.x * cuda.threadIdx.y")
            self.line("x, y = cuda.grid(2)")
        else:
            self.line(
                "t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)"
            )
            self.line("n = cuda.gridDim.x * cuda.gridDim.y * cuda.gridDim.z")
            self.line("g = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)")
            self.line(f"g = g * {self.threads} + t")
            self.line(f"n = n * {self.threads}")
        self.whole += ["x", "y"] if self.axes == 2 else ["g"]

    def source(self) -> str:
        """Return the kernel's text."""
        for dtype in DTYPES:
            self.line(f"s{dtype} = cuda.shared.array({LENGTH}, np.{dtype})")
        self.positions()
        for _ in range(self.random.randint(4, 10)):
            self.statement(2)
        if self.chance(0.4):  # threads that have ended are treated as arrived
            self.line(f"if {self.condition()}: return")
            self.line(f"oint64[{self.own}, 0] = cuda.syncthreads_count(True)")
        for dtype, names in self.variables.items():
            for k, name in enumerate(names[-4:]):
                self.line(f"o{dtype}[{self.own}, {k}] += {name}")
        parameters = ", ".join([*(f"{kind}{d}" for kind in "xoe" for d in DTYPES), *(f"c{d}" for d in TOTALS)])
        return f"{HEAD}def kernel({parameters}):\n" + "\n".join(self.lines) + "\n"

    def make_arguments(self) -> dict[str, np.ndarray]:
        """Return the arguments: zeros for output arrays, otherwise random arrays."""
        source = np.random.default_rng(self.seed)
        rows: tuple[int, ...] = (self.threads * int(np.prod(self.grid)),)
        strided: tuple[int, ...] = (STRIDED[0] * STRIDED[1],)
        if self.axes == 2:
            grid = self.grid if isinstance(self.grid, tuple) else (self.grid, 1)
            width, height = (n * each for n, each in zip(grid, self.block, strict=True))
            rows, strided = ((height, width) if self.own == "y, x" else (width, height)), STRIDED
        made = {f"x{dtype}": _random_numbers(source, dtype) for dtype in DTYPES}
        made |= {f"o{dtype}": np.zeros((*rows, 4), dtype) for dtype in DTYPES}
        made |= {f"e{dtype}": np.resize(made[f"x{dtype}"], strided) for dtype in DTYPES}
        return made | {f"c{dtype}": np.resize(made[f"x{dtype}"], LENGTH) for dtype in TOTALS}


def _random_numbers(source: np.random.Generator, dtype: str) -> np.ndarray:
    if dtype[0] == "f":
        numbers = (source.normal(size=LENGTH) * 10.0 ** source.integers(-2, 3, LENGTH)).round(3)
    else:
        numbers = source.integers(0 if dtype[0] == "u" else -9, 12, LENGTH)
    return numbers.astype(dtype)


def check_kernel(seed: int) -> str:
    """Run a random kernel in Python mode and on each device. Return the first fault, or ""."""
    generator = Generator(seed)
    text = generator.source()
    file = f"<random kernel {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {"__name__": "random_kernel"}
    exec(compile(text, file, "exec"), scope)
    shape = generator.grid, generator.block
    wanted = generator.make_arguments()
    for device in ("", *DEVICES):
        found = generator.make_arguments() if device else wanted
        try:
            with warnings.catch_warnings(), weft.device(device or "cpu"), override(kernel_python=not device):
                warnings.simplefilter("ignore", weft.PerformanceWarning)
                weft.kernel(scope["kernel"])[shape](*found.values())
        except Exception as error:
            return f"seed {seed} on {device or 'Python'}: {type(error).__name__}: {error}\n{text}"
        for name, one in wanted.items():
            if not np.array_equal(one, found[name], equal_nan=one.dtype.kind == "f"):
                return f"seed {seed}: {name} of {shape}\n{one}\nas Python, on {device}\n{found[name]}\n{text}"
    return ""
