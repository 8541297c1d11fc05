"""Tests that divisions and square roots expanded for GPUs are correctly rounded.

The results must be correct whatever the errors of the approximate instructions within their documented bounds.

The code for GPUs is compiled for this machine. The GPU's approximate instructions are replaced by tables, or by exact
results with errors up to the documented bounds.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.codegen.llvm.grids import load, run
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Kernel, KernelBuilder, verify_kernel
from weft.codegen.kernel_ir.operation import Operation
from weft.codegen.passes.expand_division import expand_division
from weft.codegen.passes.rewrite import Rewriter

# Quotients or roots per iteration. "one divisor" has more quotients than can share a branch, to test another path.
FORMS = {"pair": 1, "pairs": 4, "one divisor": 6, "root": 1, "roots": 4}


def plain(form: str) -> Kernel:
    """Return a kernel that computes quotients or square roots in a loop.

    An iteration computes as many results as `FORMS` states for `form`.
    """
    b = KernelBuilder("model", np.int64, "threaded", explicit=True)
    x, y, _ = (b.pointer(name, np.float32) for name in ("x", "y", "near"))
    out, n = b.pointer("out", np.float32, writable=True), b.scalar("n")
    b.scalar("skew", np.float64)
    with b.loop(n, "serial") as i:
        first = b.op("multiply", i.index, b.constant(FORMS[form]))
        indices = [b.op("add", first, b.constant(k)) for k in range(FORMS[form])]
        numbers = [b.load(y, index) for index in ([i.index] if form == "one divisor" else indices)]
        if "root" in form:
            results = [b.op("sqrt", number) for number in numbers]
        else:
            dividends = [b.load(x, index) for index in indices]
            divisors = numbers * (FORMS[form] if form == "one divisor" else 1)
            results = [b.op("divide", *pair) for pair in zip(dividends, divisors, strict=True)]
        for index, result in zip(indices, results, strict=True):
            b.store(out, index, result)
    return b.finish()


@cache
def modelled(form: str) -> tuple[Kernel, Any]:
    """Expand the divisions or square roots of a test kernel, and compile it for the CPU. Return the kernel and the compiled code.

    The string `form` is a key of `FORMS`. A model replaces the approximate instructions of a GPU.
    """
    kernel = expand_division(plain(form))
    verify_kernel(kernel)
    assert not [o for o in kernel.walk() if o.opcode in ("divide", "sqrt")]
    makers = {value: o for o in kernel.walk() for value in o.results}
    near, skew = (next(p.value for p in kernel.parameters if p.value.name == name) for name in ("near", "skew"))

    def rule(b: KernelBuilder, o: Operation, operands: list[Any]) -> list[Any] | None:
        if o.opcode != "approximate":
            return None
        maker = makers.get(o.operands[0])
        if maker is not None and maker.opcode == "load":
            return [b.load(near, maker.operands[1])]
        (x,) = (b.cast(v, np.float64) for v in operands)
        x = x if o.attributes["function"] == "reciprocal" else b.op("sqrt", x)
        exact = b.op("divide", b.constant(1, np.float64), x)
        return [b.cast(b.op("multiply", exact, skew), o.results[0].type)]

    kernel = Rewriter(kernel, rule).run()
    return kernel, load(kernel)


def flushed(values: np.ndarray) -> np.ndarray:
    """Return values with subnormal numbers replaced by zeros of the same sign."""
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, np.copysign(values.dtype.type(0), values), values)


def off_by(values: np.ndarray, units: int, exact: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Add `units` to the bit pattern of each float32 value, except where the difference from `exact` would then exceed
    `bound`.

    The error is the difference from `exact`. Zeros also stay unchanged, and values that are not finite before or after
    the addition.
    """
    moved = (values.view(np.int32) + np.int32(units)).view(np.float32)
    ordinary = np.isfinite(values) & (values != 0) & np.isfinite(moved)
    return np.where(ordinary & (np.abs(moved - exact) <= bound), moved, values)


@np.errstate(all="ignore")
def reciprocals(y: np.ndarray, units: int) -> np.ndarray:
    """Return possible results of ``rcp.approx.ftz.f32``.

    The error of this instruction is at most one unit in the last place.
    """
    exact = 1 / flushed(y).astype(np.float64)
    nearest = exact.astype(np.float32)
    found = off_by(nearest, units, exact, np.spacing(np.abs(nearest)).astype(np.float64))
    # the machine's division would be wrong if the result were 1/2 for the significand with all bits set
    one = (y.view(np.int32) & 0x7FFFFF == 0x7FFFFF) & (found.view(np.int32) & 0x7FFFFF == 0)
    return flushed(np.where(one, nearest, found))


@np.errstate(all="ignore")
def root_reciprocals(x: np.ndarray, units: int) -> np.ndarray:
    """Return possible results of ``rsqrt.approx.ftz.f32``.

    The relative error of this instruction is at most 2^-22.4.
    """
    exact = 1 / np.sqrt(flushed(x).astype(np.float64))
    return off_by(exact.astype(np.float32), units, exact, exact * 2.0**-22.4)


@np.errstate(all="ignore")
def check(form: str, x: np.ndarray, y: np.ndarray, units: int, short: bool = False) -> None:
    """Run the kernel for `form`, a key of `FORMS`, and compare its quotients or square roots with those of NumPy.

    With `short`, fail if an element does not take the short path.
    """
    kernel, function = modelled(form)
    if "root" in form:
        near, wanted = root_reciprocals(y, units), np.sqrt(y)
        skew = 1 + units / 3 * 2.0**-23  # with rounding, 2^-22.4
    else:
        near, wanted = reciprocals(y, units), (x.reshape(y.size, -1) / y[:, None]).ravel()
        skew = 1 + units * 2.0**-17
    found, skew = np.empty_like(wanted), np.nan if short else skew
    run(
        kernel, [x, y, near, found, y.size if form == "one divisor" else y.size // FORMS[form], skew], function=function
    )
    differ = (found.view(np.int32) != wanted.view(np.int32)) & ~(np.isnan(found) & np.isnan(wanted))
    if differ.any():
        k = int(differ.argmax())
        pytest.fail(f"{differ.sum()} differ: {x[k]!r} / {y[k * y.size // x.size]!r} is {wanted[k]!r}, not {found[k]!r}")


def check_pairs(x: np.ndarray, y: np.ndarray) -> None:
    """Check the quotients x / y and the square roots of y.

    They are computed alone and together with others. Quotients are also computed with others by the same divisor.
    """
    x, y = (np.ascontiguousarray(v, np.float32).ravel()[: v.size // 4 * 4] for v in (x, y))
    for units in (-1, 0, 1):
        for form in ("pair", "pairs"):
            check(form, x, y, units)
        check("one divisor", np.repeat(x, FORMS["one divisor"]), y, units)
    for units in (-3, -2, -1, 0, 1, 2, 3):
        for form in ("root", "roots"):
            check(form, x, y, units)


def bits(values: Any) -> np.ndarray:
    return np.asarray(values, np.uint32).view(np.float32)


def any_floats(count: int, seed: int) -> np.ndarray:
    return bits(np.random.default_rng(seed).integers(0, 1 << 32, count, dtype=np.uint32))


# Significands that are hard to round: few bits, all bits, next to a half, roots of two and three.
SIGNIFICANDS = np.array(
    [0, 1, 2, 3, 0x400000, 0x3FFFFF, 0x400001, 0x7FFFFF, 0x7FFFFE, 0x7FFFFD, 0x3504F3, 0x5DB3D7, 0x2AAAAB]
)


def test_special_values() -> None:
    exponents = np.array([0, 1, 2, 3, 25, 26, 27, 28, 126, 127, 128, 150, 228, 229, 250, 251, 252, 253, 254, 255])
    positive = (exponents[:, None] << 23 | SIGNIFICANDS).ravel()
    values = bits(np.concatenate([positive, positive | 1 << 31]))
    check_pairs(np.repeat(values, values.size), np.tile(values, values.size))


def test_all_pairs_of_exponents() -> None:
    source = np.random.default_rng(3)
    x, y = (part.ravel() for part in np.meshgrid(np.arange(256), np.arange(256)))
    for _ in range(4):
        both = []
        for exponents in (x, y):
            significands = source.choice(SIGNIFICANDS, exponents.size)
            both.append(bits(source.integers(0, 2, x.size) << 31 | exponents << 23 | significands))
        check_pairs(*both)


def test_any_bits() -> None:
    check_pairs(any_floats(1 << 18, 1), any_floats(1 << 18, 2))


def test_quotients_that_are_exact_or_halfway_below_the_normal_numbers() -> None:
    source = np.random.default_rng(4)
    halves, factor = source.integers(1, 1 << 12, 1 << 16), source.integers(1, 1 << 12, 1 << 16)
    shift = source.integers(0, 60, 1 << 16)
    for more in (-1, 0, 1):
        y = np.ldexp(factor.astype(np.float64), 1 + shift)
        x = np.ldexp((halves * factor).astype(np.float64) + more, shift - 149)
        check_pairs(x, y)


def hard_pairs(divisors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of numbers whose quotients are close to a midpoint of two floats.

    `divisors` are odd numbers of 24 bits. If the quotient is near m + 1/2 units in the last place, k = x 2^n - y (2 m +
    1) is small. For each small k, an inverse of y modulo 2^n determines 2 m + 1.
    """
    y = divisors.astype(np.int64)
    inverse = y.copy()
    for _ in range(5):
        inverse = inverse * (2 - y * inverse) & 0xFFFFFFFF
    found_x, found_y = [], []
    for n in (24, 25):
        for k in range(-32, 33):
            middle = (-k * inverse) & ((1 << n) - 1)
            middle += (1 << 24) * (middle < 1 << 24)
            x = (y * middle + k) >> n
            good = (y * middle + k == x << n) & (middle & 1 == 1) & (x >= 1 << 23) & (x < 1 << 24) & (k != 0)
            found_x.append(x[good])
            found_y.append(y[good])
    return np.concatenate(found_x).astype(np.float32), np.concatenate(found_y).astype(np.float32)


def test_quotients_next_to_the_middle_of_two_floats() -> None:
    last = np.arange((1 << 24) - 2047, 1 << 24, 2)
    drawn = np.random.default_rng(5).integers(1 << 22, 1 << 23, 2048) * 2 + 1
    x, y = hard_pairs(np.concatenate([last, drawn]))
    assert x.size > 50_000
    check_pairs(x, y)
    check_pairs(x * np.float32(2.0**-120), y * np.float32(2.0**30))  # (subnormal: must be rounded only once)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(32))
def test_all_quotients_next_to_the_middle(part: int) -> None:
    """Test quotients that are close to a midpoint of two floats. The divisors are all odd integers of 24 bits.

    Divisors with even significands are omitted, since their quotients are not closer to a midpoint than those of odd
    ones.
    """
    step = (1 << 23) // 32
    for start in range((1 << 23) + part * step + 1, (1 << 23) + (part + 1) * step, 1 << 15):
        x, y = hard_pairs(np.arange(start, start + (1 << 15), 2))
        for units in (-1, 0, 1):
            check("pair", x, y, units)


@pytest.mark.slow
def test_a_hundred_million_pairs() -> None:
    for part in range(100):
        x, y = any_floats(1 << 20, 100 + part), any_floats(1 << 20, 300 + part)
        for units in (-1, 0, 1):
            check("pair", x, y, units)


@pytest.mark.slow
def test_roots_of_all_significands() -> None:
    x = np.arange(0x3F800000, 0x40800000, dtype=np.uint32).view(np.float32)
    for units in (-3, -2, -1, 0, 1, 2, 3):
        check("root", x, x, units)


@pytest.mark.parametrize("form", FORMS)
def test_ordinary_numbers_take_the_short_path(form: str) -> None:
    source = np.random.default_rng(7)
    signs = source.choice(np.float32([-1, 1]), (2, 4096)) if "root" not in form else np.ones((2, 4096), np.float32)
    x, y = np.exp2(source.uniform(-60, 60, (2, 4096))).astype(np.float32) * signs
    check(form, np.repeat(x, FORMS[form]) if form == "one divisor" else x, y, 0, short=True)


def test_zeros_of_a_row_take_the_short_path() -> None:
    source = np.random.default_rng(8)
    y = np.exp2(source.uniform(-90, 90, 4096)).astype(np.float32)
    x = source.choice(np.float32([0.0, -0.0, 1.0]), (y.size, FORMS["one divisor"])) * y[:, None]
    check("one divisor", x.astype(np.float32).ravel(), y, 0, short=True)


def test_the_interpreter_takes_the_same_steps() -> None:
    values = bits([0, 1, 0x007FFFFF, 0x3F800000, 0x3FFFFFFF, 0x7F7FFFFF, 0x7F800000, 0x80000001, 0xBF800003])
    x, y = np.repeat(values, values.size), np.tile(values, values.size)
    x, y = x[:80], y[:80]
    found = np.zeros_like(x)
    with np.errstate(all="ignore"):
        for form in ("pair", "pairs", "root", "roots"):
            interpret_kernel(expand_division(plain(form)), [x, y, x, found, x.size // FORMS[form], 1.0])
            np.testing.assert_array_equal(found, np.sqrt(y) if "root" in form else x / y)


def kernel_of(*quotients: tuple[Any, Any], dtype: Any = np.float32) -> Kernel:
    """Return a kernel that computes quotients of constants and scalar parameters.

    A string in `quotients` is the name of a parameter.
    """
    b = KernelBuilder("some", np.int32, "threaded")
    out = b.pointer("out", dtype, writable=True)
    names = dict.fromkeys(v for pair in quotients for v in pair if isinstance(v, str))
    scalars = {name: b.scalar(name, dtype) for name in names}
    values = [[scalars[v] if isinstance(v, str) else b.constant(v, dtype) for v in pair] for pair in quotients]
    for k, quotient in enumerate([b.op("divide", *pair) for pair in values]):
        b.store(out, b.constant(k), quotient)
    return b.finish()


def branches(kernel: Kernel) -> int:
    return sum(o.opcode == "if" for o in kernel.walk())


def test_a_vector_takes_one_branch() -> None:
    assert branches(expand_division(kernel_of(*((f"x{k}", f"y{k}") for k in range(4))))) == 1
    assert branches(expand_division(kernel_of(*((f"x{k}", f"y{k}") for k in range(8))))) == 2


def test_a_row_with_one_divisor_takes_one_branch_and_one_reciprocal() -> None:
    kernel = expand_division(kernel_of(*((f"x{k}", "y") for k in range(16))))
    assert branches(kernel) == 1
    kinds = [o.results[0].type for o in kernel.walk() if o.opcode == "approximate"]
    assert kinds == [np.float32, np.float64]


@pytest.mark.parametrize("divisor", [2.0, -0.125, 2.0**126, "x"])
def test_what_llvm_does_better_is_left_to_it(divisor: Any) -> None:
    if divisor == "x":
        kernel = kernel_of((1.0, 3.0))
    else:
        kernel = kernel_of(("x", divisor))
    assert expand_division(kernel) is kernel


def test_a_constant_divisor_needs_no_approximation() -> None:
    kernel = expand_division(kernel_of(("x", 3.0)))
    assert branches(kernel) == 1
    assert not [o for o in kernel.walk() if o.opcode == "approximate"]
    for x in (1, 1e-45, -7e-46, 3e38, np.inf, 0.0):
        out = np.zeros(1, np.float32)
        interpret_kernel(kernel, [out, np.float32(x)])
        assert out[0] == np.float32(x) / np.float32(3)


def test_a_quotient_of_halves_between_other_quotients_precedes_its_use() -> None:
    b = KernelBuilder("mixed", np.int64, "threaded", explicit=True)
    x, half, out = (
        b.pointer("x", np.float32),
        b.pointer("half", np.float16),
        b.pointer("out", np.float32, writable=True),
    )
    zero, one = b.constant(0), b.constant(1)
    number, narrow = b.load(x, zero), [b.cast(b.load(half, k), np.float32) for k in (zero, one)]
    first = b.op("divide", number, b.load(x, one))
    middle = b.op("divide", *narrow)
    last = b.op("divide", middle, number)
    b.store(out, zero, first)
    b.store(out, one, last)
    kernel = expand_division(b.finish())
    verify_kernel(kernel)
    found = np.zeros(2, np.float32)
    interpret_kernel(kernel, [np.float32([3, 7]), np.float16([5, 9]), found])
    np.testing.assert_array_equal(found, np.float32([3, np.float32(5) / np.float32(9)]) / np.float32([7, 3]))


def test_other_dtypes_are_left_alone() -> None:
    kernel = kernel_of(("x", "y"), dtype=np.float64)
    assert expand_division(kernel) is kernel


def narrow(opcode: str) -> Kernel:
    """Return a kernel that computes float16 quotients or square roots as on a GPU. The kernel emulates the GPU's approximate instructions.

    Check that the kernel has no branches.
    """
    b = KernelBuilder("narrow", np.int64, "threaded", explicit=True)
    x, y = (b.pointer(name, np.float16) for name in ("x", "y"))
    out, n, skew = b.pointer("out", np.float16, writable=True), b.scalar("n"), b.scalar("skew", np.float64)
    with b.loop(n, "serial") as i:
        numbers = [b.cast(b.load(p, i.index), np.float32) for p in (x, y)[: 1 + (opcode == "divide")]]
        b.store(out, i.index, b.cast(b.op(opcode, *numbers), np.float16))

    def rule(b: KernelBuilder, o: Operation, operands: list[Any]) -> list[Any] | None:
        if o.opcode != "approximate":
            return None
        number = b.cast(operands[0], np.float64)
        number = number if o.attributes["function"] == "reciprocal" else b.op("sqrt", number)
        exact = b.op("divide", b.constant(1, np.float64), number)
        return [b.cast(b.op("multiply", exact, skew), np.float32)]

    kernel = expand_division(b.finish())
    assert not [o for o in kernel.walk() if o.opcode in ("divide", "sqrt", "if")]
    skew = next(p.value for p in kernel.parameters if p.value.name == "skew")
    return Rewriter(kernel, rule).run()


@pytest.mark.parametrize("opcode", ["divide", "sqrt"])
@np.errstate(all="ignore")
def test_numbers_of_half_precision_take_no_branch(opcode: str) -> None:
    kernel = narrow(opcode)
    function = load(kernel)
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    special = np.array([0.0, -0.0, 1, -3, np.inf, -np.inf, np.nan, 6e-8, 6.1e-5, 65504, 1.999, -2047], np.float16)
    some = np.concatenate([special, np.random.default_rng(0).choice(every, 60)])
    pairs = [
        (np.repeat(every, some.size), np.tile(some, every.size)),
        (np.tile(some, every.size), np.repeat(every, some.size)),
    ]
    for x, y in pairs if opcode == "divide" else [(every, every)]:
        wanted = x / y if opcode == "divide" else np.sqrt(x)
        for units in (-1, 0, 1):
            found = np.empty_like(wanted)
            run(kernel, [x, y, found, x.size, 1 + units * 2.0**-24], function=function)
            differ = (found.view(np.int16) != wanted.view(np.int16)) & ~(np.isnan(found) & np.isnan(wanted))
            assert not differ.any(), (x[differ][:3], y[differ][:3], found[differ][:3], wanted[differ][:3])


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.float16])
@pytest.mark.parametrize("divisor", [255.0, 0.1, 1 / 3, 1.9999999, -7.0, 2.0**-49 * 1.5, np.inf, -np.inf, np.nan, 0.0])
@np.errstate(all="ignore")
def test_integers_of_16_bits_over_constants_take_no_branch(dtype: Any, divisor: float) -> None:
    b = KernelBuilder("small", np.int64, "threaded", explicit=True)
    x, out, n = b.pointer("x", dtype), b.pointer("out", np.float32, writable=True), b.scalar("n")
    with b.loop(n, "serial") as i:
        number = b.cast(b.load(x, i.index), np.float32)
        b.store(out, i.index, b.op("divide", number, b.constant(divisor, np.float32)))
    kernel = expand_division(b.finish())
    assert not [o for o in kernel.walk() if o.opcode in ("divide", "approximate", "if")]
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    wanted, found = every.astype(np.float32) / np.float32(divisor), np.empty(1 << 16, np.float32)
    run(kernel, [every, found, every.size])
    differ = (found.view(np.int32) != wanted.view(np.int32)) & ~(np.isnan(found) & np.isnan(wanted))
    assert not differ.any(), (every[differ][:3], found[differ][:3], wanted[differ][:3])
