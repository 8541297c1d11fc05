"""Random array programs, generated from the op table, run on weft and on NumPy.

A program is a list of Python statements over arrays v0, v1, ... The same text runs with `xp` as NumPy and as weft. The
generator drops statements that NumPy rejects, so that every program is valid.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

import numpy as np

import weft as wf
from weft.codegen import OPS, dtype_kind, is_bfloat16, resolve_dtypes
from weft.dsl.arrays.array import Scalar
from weft.runtime import SimtDevice, get_device
from weft.runtime import device as on_device

SHAPES = ((4, 5), (5,), (4, 1), (1,), (), (3, 4, 5), (0, 5), (7,), (33,), (2, 70))
# Shapes at which schedules change: more rows or columns than threads of a block, rows longer than one block, and split
# reductions.
LARGE = ((300,), (3, 1100), (1100, 3), (70, 130), (20000,), (130, 70), (70, 1), (2500, 2), (2, 9000), (7, 30, 11))
_HALVES = ("bfloat16",) if find_spec("ml_dtypes") else ()
if _HALVES:
    import ml_dtypes  # noqa: F401  # NumPy knows the name from then on
DTYPES = ("float64", "float32", "int64", "int32", "uint8", "int16", "bool", "float16", "complex128", "uint64", *_HALVES)
EXACT = tuple(
    definition.name
    for definition in OPS.values()
    if definition.ulp == 0
    and not definition.name.startswith("_")
    and definition.name
    not in (
        "spacing",
        "nextafter",
        "gcd",
        "lcm",
        "ldexp",
        "power",
        "float_power",
        "bitwise_count",
        "reciprocal",
        "hypot",
        "fma",
        *("real", "imag"),  # (views in NumPy)
    )
)
INEXACT = (
    *("exp", "sin", "tanh", "log1p", "arctan2", "cbrt", "power", "hypot"),
    *("sinc", "fma", "erf", "erfc", "gamma", "lgamma", "rsqrt", "exp10", "sinpi", "cospi"),
)
REDUCTIONS = ("sum", "max", "min", "any", "all", "argmax", "argmin", "mean", "prod")


class WithRows:
    """The namespace of NumPy, extended by the ops of the op table that NumPy lacks."""

    def __getattr__(self, name: str) -> Any:
        row = OPS.get(name)
        if row is None or row.reference is None or hasattr(np, name):
            return getattr(np, name)
        reference = row.reference

        def compute(*operands: Any) -> Any:
            kinds = tuple(x.dtype if isinstance(x, (np.ndarray, np.generic)) else type(x) for x in operands)
            loop, result = resolve_dtypes(row, kinds)
            return reference(*map(np.asarray, operands, loop)).astype(result)[()]

        return compute


NUMPY = WithRows()


class Generator:
    """A generator of one random program."""

    def __init__(self, seed: int, large: bool = False) -> None:
        self.shapes = LARGE if large else SHAPES
        self.most = 100_000 if large else 5000  # maximum number of elements
        self.random = random.Random(seed)
        self.seed = seed
        self.values: dict[str, np.ndarray] = {}
        self.lines: list[str] = []
        self.inexact: set[str] = set()

    def start(self) -> dict[str, np.ndarray]:
        """Return random input arrays of the program."""
        source = np.random.default_rng(self.seed)
        for k in range(self.random.randint(2, 4)):
            shape = self.random.choice(self.shapes)
            dtype = np.dtype(self.random.choice(DTYPES[:7] if k else DTYPES))
            if dtype.kind == "b":
                made = source.random(shape) < 0.5
            elif dtype.kind == "c":
                made = source.integers(-9, 9, shape) + 1j * source.integers(-9, 9, shape)
            else:
                made = source.integers(0 if dtype.kind == "u" else -9, 20, shape) * (1 if dtype.kind in "iu" else 0.25)
            self.values[f"v{k}"] = np.asarray(made).astype(dtype).reshape(shape)
        return {name: value.copy() for name, value in self.values.items()}

    def pick(self) -> str:
        return self.random.choice(list(self.values))

    def index(self, shape: tuple[int, ...]) -> str:
        """Return a random index for a shape."""
        parts = []
        for n in shape:
            choice = self.random.randrange(9)
            if choice == 0 and n:
                parts.append(str(self.random.randrange(-n, n)))
            elif choice == 1:
                parts.append("::-1")
            elif choice == 2:
                parts.append("1:")
            elif choice == 3:
                parts.append(":-1")
            elif choice == 4:
                parts.append("::2")
            elif choice == 5 and n and self.random.random() < 0.5:
                count = self.random.randint(1, 4)
                parts.append(str([self.random.randrange(-n, n) for _ in range(count)]))
            else:
                parts.append(":")
        if self.random.random() < 0.15:
            parts.insert(self.random.randrange(len(parts) + 1), "None")
        if self.random.random() < 0.15:
            parts = ["..."] if self.random.random() < 0.3 else ["...", *parts[-1:]]
        return ", ".join(parts) or "..."

    def expression(self, name: str) -> tuple[str, bool]:
        """Return a random expression, and whether the expression is inexact."""
        a, b = self.pick(), self.pick()
        shape = self.values[a].shape
        choice = self.random.randrange(16)
        number = self.random.choice(["2", "3.5", "-1", "0.25", "7", "True", "0"])
        if choice < 4:
            definition = OPS[self.random.choice(EXACT)]
            operands = [a, self.random.choice([b, number]), self.pick()][: definition.arity]
            # the magnitude of a complex number is not exact
            inexact = definition.name in ("absolute", "sign") and dtype_kind(self.values[a].dtype) == "c"
            return f"xp.{definition.name}({', '.join(operands)})", inexact
        if choice == 4:
            operator = self.random.choice(["+", "-", "*", "/", "//", "%", "<", "==", "&", "|"])
            return f"{a} {operator} {self.random.choice([b, number])}", False
        if choice == 5:
            definition = OPS[self.random.choice(INEXACT)]
            if (
                definition.name == "sinc"
                and self.values[a].dtype.itemsize == 2
                and dtype_kind(self.values[a].dtype) == "f"
            ):
                definition = OPS["exp"]  # NumPy rounds pi * x to 16 bits, so the sinc of integers is up to 5e-4
            if definition.name == "power" and "bfloat16" in (self.values[a].dtype.name, self.values[b].dtype.name):
                definition = OPS["hypot"]  # NaN ** 0 is NaN in ml_dtypes
            return f"xp.{definition.name}({', '.join([a, b, self.pick()][: definition.arity])})", True
        if choice == 6:
            axis = self.random.choice(["None", *map(str, range(-len(shape), len(shape)))])
            name = self.random.choice(REDUCTIONS)
            if is_bfloat16(self.values[a].dtype) and name in ("sum", "mean", "prod"):
                name = "max"  # NumPy accumulates bfloat16 in bfloat16
            exact = name not in ("sum", "mean", "prod") or dtype_kind(self.values[a].dtype) in "iub"
            return f"{a}.{name}(axis={axis})", not exact
        if choice == 7:
            return f"{a}[{self.index(shape)}]", False
        if choice == 8:
            return self.random.choice(
                [
                    f"{a}.T",
                    f"{a}.reshape(-1)",
                    f"xp.flip({a})",
                    f"{a}.copy()",
                    f"xp.expand_dims({a}, 0)",
                    f"xp.ravel({a})",
                ]
            ), False
        if choice == 9:
            return f"xp.where({a} > {number}, {a}, {b})", False
        if choice == 10:
            return f"xp.clip({a}, -2, 3)", False
        if choice == 11:
            # out-of-range floats are cast to integers by another rule than NumPy's, so clip them
            real = f"xp.real({a})"
            if is_bfloat16(self.values[a].dtype):  # (NumPy's nan_to_num does not replace NaNs of bfloat16)
                real += ".astype('float32')"
            source = f"xp.clip(xp.nan_to_num({real}), 0, 100)" if dtype_kind(self.values[a].dtype) in "fc" else a
            return f"{source}.astype('{self.random.choice(DTYPES[:6])}')", False
        if choice == 12:
            return self.random.choice(
                [
                    f"xp.concatenate([{a}, {b}])",
                    f"xp.stack([{a}, {a}])",
                    f"xp.roll({a}, 2)",
                    f"xp.pad({a}, 1)",
                    f"xp.repeat({a}, 2)",
                    f"xp.tile({a}, 2)",
                ]
            ), False
        if choice == 13:
            return f"xp.cumsum({a}, axis={self.random.choice(['None', '0', '-1'])})", dtype_kind(
                self.values[a].dtype
            ) not in "iub"
        if choice == 14:
            return f"{a}[{a} > {number}]", False
        return f"xp.broadcast_to({a}, (2, *{a}.shape)) + {number}", False

    def statement(self) -> tuple[str, str, bool]:
        """Return a random statement, the variable that it changes, and whether the new value is inexact."""
        if self.random.random() < 0.45 and len(self.values) > 1:
            # (an element of an array is a scalar in NumPy, and cannot be changed)
            target = self.random.choice([n for n, v in self.values.items() if v.ndim] or [""])
            if not target:
                return "v0 = xp.ones((3, 2))", "v0", False
            index = self.index(self.values[target].shape)
            source, inexact = self.random.choice(
                [(self.pick(), False), (self.random.choice(["1", "0.5", "-2"]), False), self.expression("")]
            )
            if self.random.random() < 0.2:
                what = self.random.choice(["0", "2", f"{target}[{target} > 1][::-1]"])
                return f"{target}[{target} > 1] = {what}", target, False
            operator = self.random.choice(["=", "+=", "*=", "-="])
            if self.random.random() < 0.25:
                return f"{target} {operator.strip('=') or '+'}= {source}", target, inexact
            return f"{target}[{index}] {operator} {source}", target, inexact
        name = f"v{self.random.randrange(8)}"
        source, inexact = self.expression(name)
        return f"{name} = {source}", name, inexact

    def write(self, count: int) -> None:
        """Add up to `count` statements that NumPy accepts."""
        for _ in range(4 * count):
            if len(self.lines) >= count:
                return
            line, target, inexact = self.statement()
            if inexact and len(self.lines) < count - 1:
                continue  # inexact statements come last, since a floor or comparison would amplify rounding differences
            trial = dict(self.values)
            snapshot = {k: v.copy() for k, v in self.values.items()}
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    exec(line, {"xp": NUMPY}, trial)
                good = all(self._acceptable(v) for v in trial.values()) and np.size(trial[target]) < self.most
                if "[" in line.split("=")[0] and dtype_kind(trial[target].dtype) in "iub":
                    source = line.rpartition("= ")[2]
                    value = eval(source, {"xp": NUMPY}, dict(self.values))
                    stored = np.asarray(value).dtype
                    if line.split("=")[0][-1] in "+-*":  # (uint64 and int64, for example, are added as float64)
                        stored = np.result_type(trial[target].dtype, value)
                    good = good and dtype_kind(stored) in "iub"
            except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, np.exceptions.AxisError):
                good = False
            if not good:
                # an in-place statement may have changed some elements, so restore the old values
                for k, v in snapshot.items():
                    if v.size and not np.array_equal(self.values[k], v, equal_nan=dtype_kind(v.dtype) in "fc"):
                        raise Abandoned
                continue
            trial = {k: v if isinstance(v, np.ndarray) else np.asarray(v) for k, v in trial.items()}
            self.values = trial
            self.lines.append(line)
            if inexact or any(f"{n}" in line.split("=", 1)[-1] for n in self.inexact):
                self.inexact.add(target)

    @staticmethod
    def _acceptable(value: Any) -> bool:
        kind = np.asarray(value)
        return dtype_kind(kind.dtype) in "biufc" and kind.ndim <= 5


def short_program(seed: int) -> tuple[Generator, dict[str, np.ndarray]]:
    """Return the generator and the inputs of a program of up to eight statements."""
    generator = Generator(seed)
    start = generator.start()
    with suppress(Abandoned):
        generator.write(8)
    return generator, start


class Abandoned(Exception):
    """Raised if a rejected statement has changed arrays in place."""


def run_program(
    lines: list[str], start: dict[str, np.ndarray], every: bool = False, device: str = "cpu"
) -> dict[str, np.ndarray]:
    """Run the program on weft, and return its values. With `every`, evaluate all arrays after each statement."""
    with on_device(device):
        values: dict[str, Any] = {name: wf.asarray(value) for name, value in start.items()}
        for line in lines:
            exec(line, {"xp": wf}, values)
            # (0-d results are scalars, which in-place statements cannot change)
            values = {k: wf.asarray(v) if isinstance(v, np.generic) else v for k, v in values.items()}
            values = {k: v.reshape(1)[..., 0] if isinstance(v, Scalar) else v for k, v in values.items()}
            if every:
                wf.evaluate(*[v for v in values.values() if isinstance(v, wf.Array)])
        return {name: np.array(value) for name, value in values.items()}


@contextmanager
def few_blocks(device: str) -> Iterator[None]:
    """Within the ``with`` block, limit grids of a `simt` device to two blocks. Each block then does more work."""
    simt = get_device(device)
    assert isinstance(simt, SimtDevice)
    before, simt.most_blocks = simt.most_blocks, 2
    try:
        yield
    finally:
        simt.most_blocks = before


def run_numpy(lines: list[str], start: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run the program on NumPy, and return its values."""
    values: dict[str, Any] = {name: value.copy() for name, value in start.items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for line in lines:
            exec(line, {"xp": NUMPY}, values)
            # NumPy's 0-d results are scalars, which in-place statements cannot change
            values = {k: v if isinstance(v, np.ndarray) else np.asarray(v) for k, v in values.items()}
    return {name: np.asarray(value) for name, value in values.items()}


def differences(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray], loose: bool) -> str:
    """Return the first difference between results, or "".

    Complex numbers, and with `loose` also floats, are compared up to rounding. With `loose`, only the shapes and dtypes
    of integers and bools are compared.
    """
    for name, wanted in theirs.items():
        found = ours[name]
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            return f"{name} is {found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}"
        if not wanted.size:
            continue
        if is_bfloat16(wanted.dtype):  # NumPy does not support all comparisons of bfloat16
            found, wanted, half = found.astype(np.float32), wanted.astype(np.float32), True
        else:
            half = wanted.dtype == np.float16
        nan = dtype_kind(wanted.dtype) in "fc"
        if loose or dtype_kind(wanted.dtype) == "c":
            single = wanted.dtype in (np.float32, np.complex64)
            tolerance = 2e-2 if half else 1e-4 if single else 1e-9
            with np.errstate(all="ignore"):
                scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0) if nan else 0
            same = (
                np.allclose(found, wanted, rtol=tolerance, atol=tolerance * scale * 1e-2, equal_nan=nan)
                if nan
                else True
            )
        else:
            same = np.array_equal(found, wanted, equal_nan=nan)
        if not same:
            where = np.argwhere(~((found == wanted) | ((found != found) & (wanted != wanted))))[:3].tolist()
            return f"{name} differs at {where}: {found.ravel()[:6]} instead of {wanted.ravel()[:6]}"
    return ""


def check(seed: int, device: str = "cpu", large: bool = False) -> str:
    """Run a random program in several ways. Return a report of the first fault, or "".

    The report contains a minimal program.
    """
    generator = Generator(seed, large)
    start = generator.start()
    with suppress(Abandoned):
        generator.write(generator.random.randint(3, 14))
    lines = list(generator.lines)
    wanted = run_numpy(lines, start)
    loose = bool(generator.inexact)
    trouble = _trouble(lines, start, wanted, loose, device)
    if not trouble:
        return ""
    return f"seed {seed} on {device}: {trouble}\n" + "\n".join(_minimal(lines, start, loose, device))


def _trouble(
    lines: list[str], start: dict[str, np.ndarray], wanted: dict[str, np.ndarray], loose: bool, device: str
) -> str:
    """Run a program on a device in several ways. Return the first fault, or "".

    Faults are errors, differences from NumPy, and differences between the ways.
    """
    try:
        once = run_program(lines, start, device=device)
        found = differences(once, wanted, loose)
        if found:
            return found
        every = run_program(lines, start, every=True, device=device)
        between = differences(every, once, False)
        if between:
            return f"evaluating after every statement: {between}"
        if device.startswith("simt"):
            with few_blocks(device):
                between = differences(run_program(lines, start, device=device), once, False)
            if between:
                return f"in two blocks: {between}"
        if device != "cpu":
            between = differences(run_program(lines, start), once, loose)
            if between:
                return f"on the CPU: {between}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _minimal(lines: list[str], start: dict[str, np.ndarray], loose: bool, device: str) -> list[str]:
    """Remove statements from a faulty program as long as it still fails. Return descriptions of the inputs, and the remaining statements."""
    k = 0
    while k < len(lines):
        fewer = lines[:k] + lines[k + 1 :]
        try:
            if _trouble(fewer, start, run_numpy(fewer, start), loose, device):
                lines = fewer
                continue
        except Exception:
            k += 1
            continue
        k += 1
    return [*(f"{n}: {v.dtype}{v.shape}" for n, v in start.items()), *lines]
