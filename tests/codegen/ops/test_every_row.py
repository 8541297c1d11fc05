"""Tests that every op of the op table matches its reference function.

All combinations of operand dtypes are tested with edge values and random values, in all of `WAYS`.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.stand_in.ptx.driver import PtxStandIn, make_ptx_device
from weft.codegen import OPS, KernelBuilder, NoLoopError, OpDef, Value, is_supported, resolve_dtypes
from weft.codegen.ops import op_table as table
from weft.dsl.arrays.array import expr_of, record
from weft.dsl.arrays.ufunc import UFunc
from weft.fusion import map_
from weft.runtime import override

WAYS = ("compiled", "interpreted", "immediate", "simt", "ptx")
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 100.0, np.inf, -np.inf, np.nan)
RANDOM = 64


def divisible(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (y != 0) & ~((x == np.iinfo(x.dtype).min) & (y.astype(float) == -1))


def shiftable(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (y >= 0) & (y < 8 * x.itemsize)


def as_exponent(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a boolean mask that selects the elements of `y` to use as exponents in tests of powers.

    NumPy raises an error for negative exponents of integers. Large complex exponents multiply the error of
    the logarithm.
    """
    return (y >= 0) | (y.dtype.kind != "i") if y.dtype.kind != "c" else np.abs(y) < 4


# The valid operands of ops that are not defined for all operands.
DOMAINS: dict[str, Any] = {
    **dict.fromkeys(("_truncate_divide", "_truncate_remainder"), divisible),
    **dict.fromkeys(("_shift_left", "_shift_right", "_shift_right_logical"), shiftable),
    **dict.fromkeys(("power", "float_power"), as_exponent),
    # (For float16, NumPy 2.4 returns the first of two zeros, and NumPy 2.5 returns the second.)
    "nextafter": lambda x, y: (x != 0) | (y != 0) | (x.dtype != np.float16),
    # (NumPy multiplies an overflow by an imaginary part of 0, which is NaN)
    "expm1": lambda x: (x.imag != 0) | (x.real < 80) | (x.dtype.kind != "c"),
    "reciprocal": lambda x: (x != 0) | (x.dtype.kind not in "iu"),  # (otherwise NumPy's result depends on the machine)
}
# Ops with large relative errors where their results are near 0. Their error is bounded relative to 1.
CANCELLING = {"sinc", "lgamma", "logaddexp", "logaddexp2"}
# For zeros of both signs, NumPy returns either zero, depending on the dtype and the machine.
EXTREMES = {"minimum", "maximum", "fmin", "fmax"}


def loops_of(definition: OpDef) -> list[tuple[np.dtype, ...]]:
    """Return the combinations of operand dtypes that an op supports."""
    found: list[tuple[np.dtype, ...]] = []
    for text in getattr(np, definition.ufunc).types if definition.ufunc else definition.loops:
        if set(text) & set("OgGmMSUV"):
            continue
        loop = tuple(map(np.dtype, text.split("->")[0]))
        try:
            fits = all(map(is_supported, loop)) and resolve_dtypes(definition, loop)[0] == loop
        except (TypeError, NoLoopError):
            continue
        if fits and loop not in found:
            found.append(loop)
    return found


def edges_of(dtype: np.dtype) -> np.ndarray:
    match dtype.kind:
        case "b":
            return np.array([False, True])
        case "i" | "u":
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
            return np.unique(
                np.array([least, least + 1, *(-7, -1)[: 2 * (least < 0)], 0, 1, 5, 64, most - 1, most], dtype)
            )
        case "c":
            parts = np.array(FLOATS)
            return (parts[:, None] + 1j * parts).ravel().astype(dtype)
    limits = np.finfo(dtype)
    return np.array([*FLOATS, limits.tiny, limits.smallest_subnormal, limits.max, -limits.max]).astype(dtype)


def random_of(dtype: np.dtype, source: np.random.Generator) -> np.ndarray:
    if dtype.kind == "b":
        return source.random(RANDOM) < 0.5
    if dtype.kind in "iu":
        return source.integers(*((0, 100) if dtype.kind == "u" else (-50, 50)), RANDOM).astype(dtype)
    found = source.standard_normal(RANDOM) * 2.0 ** source.integers(-8, 6, RANDOM)
    return (found + 1j * source.permutation(found) if dtype.kind == "c" else found).astype(dtype)


def operands_of(definition: OpDef, loop: tuple[np.dtype, ...]) -> list[np.ndarray]:
    """Return arrays with combinations of edge values, followed by random values.

    There is one array for each operand of the op.
    """
    source = np.random.default_rng(3)
    edges = [edges_of(kind)[:: 1 if len(loop) < 3 else 2] for kind in loop]
    whole = np.array(list(itertools.product(*(range(len(e)) for e in edges)))).T
    found = [np.concatenate([e[k], random_of(kind, source)]) for e, k, kind in zip(edges, whole, loop, strict=True)]
    if loop[0].kind == "c" and (definition.ulp or definition.name == "float_power"):
        found = [x[np.isfinite(found).all(axis=0)] for x in found]  # (the edges are in test_complex_functions.py)
    if definition.name in DOMAINS:
        inside = DOMAINS[definition.name](*found)
        found = [x[inside] for x in found]
        if definition.name.startswith("_"):  # whole vectors only: no guard protects lanes without an element
            found = [np.resize(x, -(-len(x) // 64) * 64) for x in found]
    return found


def wanted_of(definition: OpDef, operands: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """Return the reference result of an op, cast to `dtype`.

    Float results of an inexact op are computed in a wider type.
    """
    reference = getattr(np, definition.ufunc) if definition.ufunc else definition.reference
    if definition.ulp and dtype.kind == "f":
        wider = np.longdouble if definition.ufunc else np.float32  # (in which float16 is computed)
        operands = [x.astype(np.result_type(x, wider)) if x.dtype.kind == "f" else x for x in operands]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(reference(*operands)).astype(dtype)


@cache
def ptx_device() -> Any:
    """Return the device that runs PTX.

    All tests share the device, since caches of plans and kernels keep a device alive.
    """
    return make_ptx_device(PtxStandIn(1 << 28))


@contextmanager
def way_of(name: str) -> Iterator[None]:
    """Choose how arrays are computed within the ``with`` block. The argument `name` is an item of `WAYS`, such as "compiled" or "interpreted"."""
    if name in ("simt", "ptx"):
        with wf.device(ptx_device() if name == "ptx" else name):
            yield
        return
    chosen = {"interpreted": {"interpret": "always"}, "immediate": {"immediate": 1 << 20}}.get(name, {})
    with override(**chosen):
        yield


def compute(definition: OpDef, operands: list[np.ndarray]) -> Any:
    arrays = [wf.asarray(x) for x in operands]
    if definition.name.startswith("_"):
        return record(map_(definition.name, [expr_of(x) for x in arrays]))
    function = getattr(wf, definition.name) if hasattr(wf, definition.name) else UFunc(definition)
    return function(*arrays)


def differences(definition: OpDef, operands: list[np.ndarray], found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return a mask of the results whose errors exceed the op's error bound.

    For complex numbers, the bound is relative to the magnitude.
    """
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found.dtype, wanted.dtype)
    if wanted.dtype.kind not in "fc":
        return found != wanted
    ulp, scale = definition.ulp, np.where(definition.name in CANCELLING, 1, 0)
    if operands[-1].dtype.kind == "c" and definition.name not in ("where", "clip"):
        # (NumPy's log1p is inaccurate for small arguments)
        ulp, scale = max(ulp, 128 if "power" in definition.name else 4), np.abs(wanted) + (definition.name == "log1p")
    same = np.ones(wanted.shape, bool)
    with np.errstate(all="ignore"):
        for x, y in [(found.real, wanted.real), (found.imag, wanted.imag)][: 1 + (wanted.dtype.kind == "c")]:
            equal = (x == y) & ((np.signbit(x) == np.signbit(y)) | (definition.name in EXTREMES))
            allowed = ulp * np.spacing(np.maximum(np.abs(y), scale.astype(y.dtype))).astype(float)
            near = np.abs(x.astype(np.longdouble) - y.astype(np.longdouble)) <= np.where(ulp, allowed, -1)
            same &= equal | near | (np.isnan(x) & np.isnan(y))
    return ~same


def check_row(definition: OpDef, way: str) -> None:
    loops = loops_of(definition)
    assert loops, "a row that computes nothing"
    with way_of(way):
        given = []
        for loop in loops:
            operands = operands_of(definition, loop)
            given.append((loop, operands, compute(definition, operands)))
        wf.evaluate(*[array for *_, array in given if isinstance(array, wf.Array)])
        wrong = []
        for loop, operands, array in given:
            found = np.asarray(array)
            wanted = wanted_of(definition, operands, found.dtype)
            for k in np.flatnonzero(differences(definition, operands, found, wanted))[:4]:
                wrong.append(
                    f"{definition.name}({', '.join(repr(x[k]) for x in operands)}) = {found[k]!r}, not {wanted[k]!r}"
                )
        assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("definition", OPS.values(), ids=lambda definition: definition.name)
def test_every_row_is_its_reference(definition: OpDef, way: str) -> None:
    if definition.name.startswith("_") and definition.name in DOMAINS and way in ("interpreted", "immediate"):
        pytest.skip("only kernels use it, behind a guard")
    check_row(definition, way)


@contextmanager
def one_more(definition: OpDef) -> Iterator[OpDef]:
    """Within the ``with`` block, add an op to the op table."""
    try:
        yield table.add_op(definition)
    finally:
        del OPS[definition.name], table._ALIASES[definition.name]


def expit_row(name: str, sign: float) -> OpDef:
    """Return a definition of the op 1 / (1 + exp(-x)), written as CONTRIBUTING describes.

    Its expansion matches its reference only if `sign` is -1.
    """

    def expand(b: KernelBuilder, x: Value) -> Value:
        one = b.constant(1, x.type)
        grown = b.op("exp", b.op("multiply", b.constant(sign, x.type), x))
        return b.op("divide", one, b.op("add", one, grown))

    def reference(x: Any) -> Any:
        return 1 / (1 + np.exp(-np.asarray(x, np.float64)))

    return OpDef(name, "Logistic function.", loops=("e->e", "f->f", "d->d"), reference=reference, expand=expand, ulp=8)


@pytest.mark.parametrize("way", WAYS)
def test_a_new_row_is_tested_and_a_wrong_one_caught(way: str) -> None:
    with one_more(expit_row("expit", -1.0)) as row:
        check_row(row, way)
    with one_more(expit_row("wrong_expit", 1.0)) as row, pytest.raises(AssertionError, match="wrong_expit"):
        check_row(row, way)


def loop_or_error(definition: OpDef, kinds: tuple[Any, ...]) -> Any:
    try:
        return resolve_dtypes(definition, kinds)
    except TypeError as error:
        return type(error)


@pytest.mark.parametrize("number", [True, 2, 0.3, 0.3j], ids=lambda number: type(number).__name__)
@pytest.mark.parametrize("definition", OPS.values(), ids=lambda definition: definition.name)
def test_python_numbers_do_not_take_a_loop_of_a_lower_kind(definition: OpDef, number: Any) -> None:
    kind = type(number)
    alone = loop_or_error(definition, (kind,) * definition.arity)
    assert alone == loop_or_error(definition, (np.dtype(kind),) * definition.arity)
    beside = loop_or_error(definition, (np.dtype(np.uint8), *(kind,) * (definition.arity - 1)))
    if isinstance(beside, tuple) and definition.loops and kind in (float, complex):
        assert all(np.can_cast(kind, dtype, "same_kind") for dtype in beside[0][1:])
    if isinstance(alone, tuple) and hasattr(wf, definition.name) and definition.loops and kind is not bool:
        with np.errstate(all="ignore"):
            wanted = np.asarray(definition.reference(*(np.asarray(number),) * definition.arity))
        np.testing.assert_allclose(getattr(wf, definition.name)(*(number,) * definition.arity), wanted, rtol=1e-12)
