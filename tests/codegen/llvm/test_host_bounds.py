"""Tests of kernels with guards, such as ``if i < n``, and with grids of any size.

Threads without work are skipped. The results are the same as in plain Python, whatever the form of the guard.
"""

from __future__ import annotations

import inspect
import linecache
import random
from typing import Any

import numpy as np
import pytest

import weft
from weft import cuda
from weft.codegen.passes.find_guards import GuardFinder, RunGuards
from weft.codegen.passes.split_at_barriers import Run
from weft.runtime import override

ROWS, COLUMNS = 13, 21


class Guarded:
    """A generator of the source text of a kernel with random guards.

    The parameters `a` and `o` have the shape (ROWS, COLUMNS), `q` is a vector of sums that are computed by atomics, and
    `n` and `m` are random numbers, which may be negative or large.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random
        self.block: tuple[int, ...] = pick.choice([(4, 4), (8, 2), (16, 3), (3, 16), (32, 1), (1, 7), (4, 4, 2)])
        self.grid = (pick.randint(1, 9), pick.randint(1, 5))
        self.lines: list[str] = []
        self.count = 0

    def inequality(self) -> str:
        pick = self.random
        x = pick.choice(
            ("i", "j", "i", "j", "t", "cuda.threadIdx.y", "j * w + i", "i * 2 + 1", "n + j", "cuda.blockIdx.x")
        )
        if pick.random() < 0.15:
            x = pick.choice((f"n * ({x})", f"(n * 3) * ({x})"))
        if pick.random() < 0.5:
            x += pick.choice((" + 1", " - 1", " - 2", " + 3", " - n", " + m"))
        limit = pick.choice(("a.shape[0]", "a.shape[1]", "n", "m", "n - 1", "4", "i", "j", "n // 2", "o.size", "n + i"))
        if limit == x:
            limit = "7"
        word = pick.choice(("<", "<", "<=", ">", ">=", "==", "!="))
        form = pick.randrange(5)
        if form == 4:
            return f"({x}) % {pick.choice(('2', '-3', '7', 'n', '(2 * m)', 'cuda.blockDim.x'))} == 0"
        if form == 0:
            return f"{limit} {word} {x}"
        if form == 1:
            return f"{pick.randint(-2, 4)} <= {x} {pick.choice(('<', '<='))} {limit}"
        return f"{x} {word} {limit}"

    def condition(self, depth: int = 2) -> str:
        pick = self.random
        if depth and pick.random() < 0.5:
            parts = [self.condition(depth - 1) for _ in range(2)]
            word = pick.choice((" and ", " and ", " or ", " & ", " | "))
            return f"({parts[0]}){word}({parts[1]})"
        if depth and pick.random() < 0.2:
            return f"not ({self.condition(depth - 1)})"
        if pick.random() < 0.1:
            return "a[0, 0] >= 0"
        return self.inequality()

    def inside(self) -> str:
        """Return a guard that keeps the indices within the array."""
        return self.random.choice(
            ("i < a.shape[1] and j < a.shape[0]", "0 <= j < a.shape[0] and i < a.shape[1]", "j < 13 and 21 > i")
        )

    def work(self, depth: int) -> list[str]:
        """Return random statements for the threads whose indices are within the array."""
        pick = self.random
        k = pick.randrange(10)
        if k == 8:
            return [
                "f = 0.0",
                f"for k in range({pick.choice(('20', 'n % 4 + 20'))}):",
                "    f += a[j, i] * k",
                "o[j, i] += int(f)",
            ]
        if k == 9:
            return [f"if {self.condition(1)}:", f"    o[j, i] += a[j - {pick.randint(0, 2)}, i - {pick.randint(0, 2)}]"]
        if k == 0:
            return [f"cuda.atomic.add(q, {pick.randrange(4)}, i - j)"]
        if k == 1:
            return [f"v += a[j, i] * {pick.randint(1, 3)}"]
        if k == 2 and depth:
            return [f"if {self.condition()}:", *indented(self.work(depth - 1))]
        if k == 3 and depth:
            return [f"for k in range({pick.choice(('3', 'i % 3', 'n % 4'))}):", *indented(self.work(depth - 1))]
        if k == 4:
            return ["o[j, i] += a[j, i] + v"]
        if k == 5 and depth:
            return [
                f"if {self.condition()}:",
                *indented(self.work(depth - 1)),
                "else:",
                *indented(self.work(depth - 1)),
            ]
        return [f"o[j, i] = a[j, i] * {pick.randint(2, 5)} + n"]

    def statement(self) -> list[str]:
        pick = self.random
        guarded = [f"if {self.inside()}:", *indented([s for _ in range(pick.randint(1, 3)) for s in self.work(2)])]
        match pick.randrange(10):
            case 0 | 8:
                return [f"if {self.condition()}:", "    return"]
            case 1:
                return [f"v = n if {self.condition()} else i"]
            case 2:
                return [f"if {self.condition()}:", *indented(guarded)]
            case 3:
                return [f"cuda.atomic.add(q, {pick.randrange(4)}, 1)"]
            case 4:
                return [f"ok = {self.condition()}", "if ok:", *indented(guarded)]
            case _:
                return guarded

    def exchange(self) -> list[str]:
        value = self.random.choice(("a[j, i] if j < a.shape[0] and i < a.shape[1] else 0", "i + j", "v"))
        return [
            f"s[t] = {value}",
            "cuda.syncthreads()",
            f"v += s[(t + {self.random.randint(0, 5)}) % threads]",
            "cuda.syncthreads()",
        ]

    def source(self) -> str:
        barriers = self.random.random() < 0.4
        lines = ["s = cuda.shared.array(64, np.int64)", "i, j = cuda.grid(2)"]
        lines += ["t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)"]
        lines += ["threads = cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z", "v = a.size"]
        if self.random.random() < 0.4:
            lines[1] = "j, i = cuda.grid(2)"
        if len(self.block) == 3:
            lines += ["if cuda.threadIdx.z != 1:", "    return"] if not barriers else []
            lines += ["j += 10000 * (1 - cuda.threadIdx.z)"]
        returned = False
        for _ in range(self.random.randint(1, 3)):
            if barriers and not returned and self.random.random() < 0.6:
                lines += self.exchange()
            made = self.statement()
            returned = returned or "    return" in made
            lines += made
        if barriers and not returned:
            lines += self.exchange()
        if "v +=" in " ".join(lines) or self.random.random() < 0.5:
            lines += [f"if {self.inside()}:", "    o[j, i] += v"]
        return "def kernel(a, o, q, n, m, w):\n" + "\n".join(indented(lines)) + "\n"

    def arguments(self) -> list[Any]:
        pick = self.random
        numbers = [pick.choice((0, 1, 3, 7, 13, 21, 40, -1, -5, 2**63 - 1, -(2**63), 2**31)) for _ in range(2)]
        a = np.random.default_rng(pick.randrange(100)).integers(-9, 9, (ROWS, COLUMNS))
        return [a, np.zeros_like(a), np.zeros(4, np.int64), *numbers, COLUMNS]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def compiled(text: str, bounds: bool) -> tuple[Any, list[int]]:
    """Return a function that launches the kernel in `text`, and a list to which each compilation appends the numbers of
    bounds that it found.

    For each section between barriers, the list receives the number of bounds that the compiler found. A bound follows
    from a condition such as ``if i < n``, which limits the thread indices. With `bounds`, loops over threads omit the
    threads without work.
    """
    counts: list[int] = []
    find = GuardFinder.find
    text = text.replace("def kernel", "def kernel" + "_unbounded" * (not bounds))
    file = f"<guarded kernel {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {"__name__": "guarded_kernel", "cuda": cuda, "np": np}
    exec(compile(text, file, "exec"), scope)
    (function,) = (value for name, value in scope.items() if name.startswith("kernel"))

    def counted(self: GuardFinder, run: Run, exits: bool) -> RunGuards:
        found = find(self, run, exits) if bounds else RunGuards()
        counts.append(len(found.bounds))
        return found

    def launch(grid: Any, block: Any, arguments: list[Any]) -> list[Any]:
        with pytest.MonkeyPatch.context() as patch, override(cache=False):
            patch.setattr(GuardFinder, "find", counted)
            if not bounds:
                patch.setattr(GuardFinder, "divide", lambda self, run: [])
            copies = [np.copy(x) if isinstance(x, np.ndarray) else x for x in arguments]
            kernel[grid, block](*copies)
        return copies

    kernel = weft.kernel(function)
    return launch, counts


def check(seed: int) -> tuple[str, int]:
    """Run a random kernel in three ways, and compare the results: compiled code with thread bounds, compiled code without them, and plain Python.

    Return a description of the first difference, or "", and the number of bounds. A kernel whose integers may overflow,
    or which may divide by 0, is not run as plain Python.
    """
    made = Guarded(seed)
    text, arguments = made.source(), made.arguments()
    launch, counts = compiled(text, True)
    results = {"bounded": launch(made.grid, made.block, arguments)}
    other, _ = compiled(text, False)
    results["unbounded"] = other(made.grid, made.block, arguments)
    if max(map(abs, arguments[3:])) < 2**31 and (0 not in arguments[3:] or "%" not in text):
        with override(kernel_python=True):
            results["Python"] = launch(made.grid, made.block, arguments)
    for name, found in results.items():
        for k in (1, 2):
            if not np.array_equal(results["bounded"][k], found[k]):
                case = f"seed {seed}, {made.grid}, {made.block}, {arguments[3:]}, {name}"
                return f"{case}\n{results['bounded'][k]}\n{found[k]}\n{text}", sum(counts)
    return "", sum(counts)


@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(40, 400, 40))])
def test_random_guards(first: int) -> None:
    counts = []
    for seed in range(first, first + 40):
        difference, count = check(seed)
        assert difference == ""
        counts.append(count)
    assert sum(count > 0 for count in counts) > 10


def below(i, n, x, o):
    if i < n:
        o[i] = x[i]


def at_most(i, n, x, o):
    if not i > n - 1:
        o[i] = x[i]


def returns(i, n, x, o):
    if n <= i:
        return
    o[i] = x[i]


def between(i, n, x, o):
    if 2 <= i < n - 3:
        o[i] = x[i - 1] + x[i + 1]


def named(i, n, x, o):
    inside = i >= 1 and i + 1 < n
    if inside:
        o[i] = x[i]


def neither(i, n, x, o):
    if i < 1 or i >= n or x[i] < 0:
        return
    o[i] = x[i]


def local_work(i, n, x, o):
    total = np.float32(0)
    for k in range(3):
        total += np.float32(k)
    if i < n:
        o[i] = x[i] + total


def one(i, n, x, o):
    if i == 5:
        o[i] = x[i]


def twice(i, n, x, o):
    if i < n:
        o[i] = x[i]
    y = x[0]
    if i < n and y > 0:
        o[i] += y


def even(i, n, x, o):
    if 2 * i + 1 < n:
        o[2 * i + 1] = x[i]


def assigned_twice(i, n, x, o):
    i += 1
    if i < n:
        o[i] = x[i]


# function -> number of bounds
FORMS = {
    below: 1,
    at_most: 1,
    returns: 1,
    between: 2,
    named: 2,
    neither: 2,
    local_work: 1,
    one: 2,
    twice: 1,
    even: 1,
    assigned_twice: 1,
}


def guarded_kernel(function: Any) -> str:
    """Return the text of a kernel with the body of `function`.

    The text defines `i` as the thread's index, and `n` as `x.size`.
    """
    lines = inspect.getsource(function).splitlines()
    return "\n".join(["def kernel(x, o):", "    i = cuda.grid(1)", "    n = x.size", *lines[1:]]) + "\n"


# -- kernels in which threads outside the guard have effects ---------------------------------------------


def counted(i, n, x, o):
    cuda.atomic.add(o, 0, np.float32(1))
    if 0 < i < n:
        o[i] = x[i]


def otherwise(i, n, x, o):
    if i < n:
        o[i] = x[i]
    else:
        cuda.atomic.add(o, 0, np.float32(1))


def either(i, n, x, o):
    if i < n or x[0] < 0:
        o[i] = x[i]


def kept(i, n, x, o):
    total = np.float32(0)
    if i < n:
        total = x[i]
    part = cuda.shared.array(1024, np.float32)
    part[cuda.threadIdx.x] = total
    cuda.syncthreads()
    total += part[(cuda.threadIdx.x + 1) % cuda.blockDim.x]
    cuda.atomic.add(o, i % n, total)


def gone(i, n, x, o):
    if i >= n:
        return
    o[i] = np.float32(cuda.syncthreads_count(True))


def padded(i, n, x, o):
    part = cuda.shared.array(1024, np.float32)
    part[cuda.threadIdx.x] = x[i] if i < n else np.float32(7)
    cuda.syncthreads()
    cuda.atomic.add(o, i % n, part[cuda.blockDim.x - 1 - cuda.threadIdx.x])


UNBOUNDED = (counted, otherwise, either, kept, gone, padded)


@pytest.mark.parametrize("function", [*FORMS, *UNBOUNDED], ids=lambda f: f.__name__)
def test_forms_of_guards(function: Any) -> None:
    text = guarded_kernel(function)
    launch, counts = compiled(text, True)
    other, _ = compiled(text, False)
    x = np.random.default_rng(0).integers(1, 9, 1000).astype(np.float32)  # (all sums are exact)
    for grid, block in ((4, 256), (9, 256), (1, 1024), (3, 7), (100, 32)):
        found, expected = (each(grid, block, [x, np.zeros_like(x)]) for each in (launch, other))
        np.testing.assert_array_equal(found[1], expected[1])
        assert found[1].any()
    assert set(counts) == {FORMS.get(function, 0)}


def test_a_loop_over_threads_is_divided_at_a_guard() -> None:
    launch, _ = compiled(guarded_kernel(padded).replace("(7)", "(8)"), True)
    divide, sizes = GuardFinder.divide, []

    def counted(self: GuardFinder, run: Run) -> list[RunGuards]:
        found = divide(self, run)
        sizes.append(len(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GuardFinder, "divide", counted)
        x = np.arange(100, dtype=np.float32)
        launch(8, 32, [x, np.zeros_like(x)])
    assert 2 in sizes


def test_the_loop_over_threads_ends_at_the_guard() -> None:
    """Test that a guard on two indices bounds the loops over both thread axes."""
    for order in ("i, j", "j, i"):
        text = f"def kernel(x, o):\n    {order} = cuda.grid(2)\n    if i < x.shape[0] and j < x.shape[1]:\n        o[i, j] = x[i, j] * 2\n"
        launch, counts = compiled(text, True)
        x = np.random.default_rng(0).integers(0, 9, (37, 45))
        for grid in ((3, 3), (5, 40), (40, 5)):
            np.testing.assert_array_equal(launch(grid, (16, 16), [x, np.zeros_like(x)])[1], 2 * x)
        assert counts == [2]


@pytest.mark.parametrize("start", [0, 1, 3, -4])
@pytest.mark.parametrize("divisor", ["2 * s", "-s", "s - 2", "5"])
@pytest.mark.parametrize("lower", [-1, 5])
def test_a_loop_over_threads_visits_only_multiples(divisor: str, start: int, lower: int) -> None:
    lines = [
        "part = cuda.shared.array(64, np.int64)",
        "t = cuda.threadIdx.x",
        "part[t] = x[t]",
        "s = 1",
        "while s < 64:",
    ]
    lines += ["    cuda.syncthreads()", f"    if (t + {start}) % ({divisor}) == 0 and t > {lower}:"]
    lines += ["        part[t] += part[t] + s", "    s *= 2", "cuda.syncthreads()", "o[t] = part[t]"]
    launch, _ = compiled("def kernel(x, o):\n" + "\n".join(indented(lines)) + "\n", True)
    find, found = GuardFinder.multiples, []

    def counted(self: GuardFinder, fact: Any, run: Run) -> Any:
        found.append(find(self, fact, run))
        return found[-1]

    x = np.arange(50)
    expected, s, t = x.copy(), 1, np.arange(50)
    while s < 64:
        by = eval(divisor)
        expected[((t + start) % by == 0 if by else t == t) & (t > lower)] *= 2
        expected[((t + start) % by == 0 if by else t == t) & (t > lower)] += s
        s *= 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GuardFinder, "multiples", counted)
        np.testing.assert_array_equal(launch(1, 50, [x, np.zeros_like(x)])[1], expected)
    assert any(found)


@pytest.mark.parametrize("first", [1, 0, -1, -(2**40), 2**20, 2**62, 2**63 - 1])
def test_a_loop_over_threads_ends_at_a_product(first: int) -> None:
    lines = ["t = cuda.threadIdx.x", "s = first", "for _ in range(8):", "    cuda.syncthreads()"]
    lines += ["    if s == 5:", "        break", "    k = s * t"]
    lines += ["    if k < 64:", "        cuda.atomic.add(o, k % 64, t + 1)", "    s *= 2"]
    text = "def kernel(o, first):\n" + "\n".join(indented(lines)) + "\n"
    launch, counts = compiled(text, True)
    found = launch(2, 64, [np.zeros(64, np.int64), first])[0]
    np.testing.assert_array_equal(found, compiled(text, False)[0](2, 64, [np.zeros(64, np.int64), first])[0])
    assert max(counts, default=1) == 1  # (compiled once for all numbers)
    if first == 1:
        assert found[::2].all()
