"""Tests that primitives, which compute one operation each, give results with the same bits as those of compiled kernels."""

from __future__ import annotations

import gc
import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import weft as wf
import weft.runtime as runtime
from weft.codegen import OPS, NoLoopError, is_supported, resolve_dtypes
from weft.dsl.arrays.array import expr_of, record
from weft.fusion import cast, map_
from weft.fusion.run import expanded_ops, primitives
from weft.fusion.run.expanded_ops import ExpandedOp
from weft.fusion.run.primitives import is_ready, primitive, uses_numpy
from weft.fusion.run.stored_loops import find_loop, obtain_loop
from weft.runtime import Request
from weft.runtime.cpu.ufuncs import BLOCK

pytestmark = pytest.mark.cpu

ODD = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 3.0, 255.0, -129.0, 1e10, -1e10, 1e-310, 1e300, np.inf, -np.inf, np.nan)


def values(dtype: np.dtype, seed: int, count: int = 331) -> np.ndarray:
    """Return values of a dtype, including the limits of an integer dtype, or special floats."""
    source = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            found = source.integers(limits.min, limits.max, count, dtype, endpoint=True)
            found[: count // 2] = source.integers(0 if dtype.kind == "u" else -9, 20, count // 2)
            found[:5] = (limits.min, limits.max, 0, 1, limits.max // 2)[:count]
        elif dtype.kind == "b":
            found = source.random(count) < 0.5
        else:
            found = (source.standard_normal(count) * 10.0 ** source.integers(-3, 3, count)).astype(dtype)
            found[: len(ODD)] = ODD[:count]
            if dtype.kind == "c":
                found.imag = values(found.imag.dtype, seed + 1, count)[::-1]
    source.shuffle(found)
    return found


def map_values(op: str, operands: Any, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Any:
    """Apply an op to operands that are cast to the dtypes of `loop`.

    The result has the dtype `dtype`. Operands of the op "cast" are not cast before.
    """
    if op == "cast":
        return primitive(op, loop, dtype)(*operands)
    typed = [
        x if x.dtype == kind else primitive("cast", (x.dtype,), kind)(x) for x, kind in zip(operands, loop, strict=True)
    ]
    return primitive(op, loop, dtype)(*typed)


def loops_of(name: str) -> list[tuple[np.dtype, ...]]:
    definition = OPS[name]
    texts = getattr(np, definition.ufunc).types if definition.ufunc else definition.loops
    found = []
    for text in texts:
        if set(text) & set("OgGmMSUV"):
            continue
        loop = tuple(map(np.dtype, text.split("->")[0]))
        try:
            if all(map(is_supported, loop)) and resolve_dtypes(definition, loop)[0] == loop and loop not in found:
                found.append(loop)
        except (TypeError, NoLoopError):
            continue
    return found


def same_bits(x: Any, y: Any) -> bool:
    """Return whether two arrays have the same bits. All NaNs are treated as equal."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind == "c":
        return same_bits(x.real, y.real) and same_bits(x.imag, y.imag)
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)  # (the result has at least one axis)
    numbers, bits = x == x, f"u{x.itemsize}"
    return bool(np.array_equal(numbers, y == y) and (x.view(bits) == y.view(bits))[numbers].all())


@pytest.mark.parametrize("name", [name for name in OPS if not name.startswith("_")])
def test_a_primitive_has_the_bits_of_a_plan(name: str) -> None:
    made = []
    for loop in loops_of(name):
        operands = [values(kind, 3 * k) for k, kind in enumerate(loop)]
        node = map_(name, [expr_of(wf.asarray(x)) for x in operands])
        if node.kind == "map":  # (`isnan` of integers is a constant)
            made.append((operands, node.attrs, node.dtype, record(node)))
    wf.evaluate(*[array for *_, array in made])
    with np.errstate(all="ignore"):
        for operands, loop, dtype, array in made:
            expected = np.asarray(array)
            row = primitive(name, loop, dtype)
            for form in (row, row.compiled()) if isinstance(row, ExpandedOp) else (row,):
                check_row(form, operands, expected, loop)


@pytest.mark.parametrize("special", [(), (0.0, -0.0), (np.nan, 1.0), (np.inf, -np.inf)])
@pytest.mark.parametrize("code", "fd")
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "clip"])
def test_expanded_extremes_have_the_bits_of_compiled_loops(name: str, code: str, special: tuple[float, ...]) -> None:
    kind = np.dtype(code)
    count = 3 if name == "clip" else 2
    source = np.random.default_rng(7)
    operands = [source.normal(size=101).astype(kind) for _ in range(count)]
    for x in operands:
        for value in special:
            x[source.integers(101, size=40)] = value
    loop = (kind,) * count
    row = ExpandedOp(name, loop, kind, primitives._numpy_function, lambda: obtain_loop(name, loop, kind))
    compiled = obtain_loop(name, loop, kind)
    with np.errstate(all="ignore"):
        for made in (operands, [operands[0], *(kind.type(special[0] if special else 0.5) for _ in operands[1:])]):
            assert same_bits(row(*made), compiled(*made))


def check_row(row: Any, operands: list[Any], expected: Any, loop: Any) -> None:
    assert same_bits(row(*operands), expected), loop
    assert same_bits(row(*(np.repeat(x, 2)[::2] for x in operands)), expected), loop
    assert same_bits(row(*(x[7] for x in operands)), expected[7]), loop
    out = np.empty_like(expected)
    assert row(*operands, out=out) is out and same_bits(out, expected), loop
    if expected.dtype == loop[0]:
        own = operands[0].copy()
        assert row(own, *operands[1:], out=own) is own and same_bits(own, expected), loop


@pytest.mark.parametrize("own", "?bBhHiIlLefdFD")
def test_casts_have_the_bits_of_plans(own: str) -> None:
    x = values(np.dtype(own), 5)
    kinds = [np.dtype(code) for code in "?bBhHiIlLefdFD" if code != own]
    arrays = [record(cast(expr_of(wf.asarray(x)), kind)) for kind in kinds]
    wf.evaluate(*arrays)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        for kind, array in zip(kinds, arrays, strict=True):
            assert same_bits(map_values("cast", [x], (x.dtype,), kind), array), kind


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.dtype(ml_dtypes.bfloat16)
    x, y = (np.linspace(-3, 9, 41).astype(kind)[::step] for step in (1, -1))
    for name in ("add", "multiply", "exp", "maximum", "less", "where"):
        operands = [x > y, x, y] if name == "where" else [x, y][: OPS[name].arity]
        node = map_(name, [expr_of(wf.asarray(np.ascontiguousarray(v))) for v in operands])
        found, expected = map_values(name, operands, node.attrs, node.dtype), np.asarray(record(node))
        assert found.dtype == expected.dtype and (found == expected).all()


def test_operands_broadcast_and_elements_need_no_whole_strides() -> None:
    row = primitive("maximum", (np.dtype(float),) * 2)
    x = values(np.dtype(float), 1)
    assert same_bits(row(x, 0.5), row(x, np.full_like(x, 0.5)))
    assert same_bits(row(x[:, None], x[:3]), row(*np.broadcast_arrays(x[:, None], x[:3])))
    packed = np.zeros(5, [("z", complex), ("d", float)])
    packed["z"] = np.arange(5) + 1j
    product = primitive("multiply", (np.dtype(complex),) * 2)
    assert same_bits(product(packed["z"], packed["z"]), product(packed["z"].copy(), packed["z"].copy()))


@pytest.mark.parametrize("code", "bhifdFD")  # (elements of 1, 2, 4, 8 and 16 bytes)
def test_operands_that_are_not_packed_are_packed_block_by_block(code: str) -> None:
    kind = np.dtype(code)
    row, random = obtain_loop("add", (kind, kind), kind), np.random.default_rng(7)
    record = np.dtype([("odd", "i1"), ("value", kind), ("more", "i1", 6)])
    for count in (0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5):
        packed = random.integers(1, 50, count).astype(kind)
        fields, spaced = np.zeros(count, record), np.zeros(3 * count, kind)[::3]
        fields["value"], spaced[...] = packed, packed
        one = np.broadcast_to(kind.type(3), packed.shape)
        for x in (packed, packed[::-1], fields["value"], spaced, spaced[::-1], one):
            for y in (packed, spaced, one):
                assert same_bits(row(x, y), x + y)
                out, every = np.zeros(2 * count, kind), np.zeros(2 * count, kind)
                row(x, y, out=out[::2])
                every[::2] = x + y
                assert same_bits(out, every)
        for target in (packed.copy(), spaced.copy(), np.repeat(packed, 2)[::-2]):
            expected = target + target[::-1]
            assert same_bits(row(target, target[::-1], out=target), expected)


def test_methods_of_ufuncs() -> None:
    row = primitive("maximum", (np.dtype(np.float32),) * 2)
    x = np.random.default_rng(0).standard_normal((50, 70)).astype(np.float32)
    for axis in (0, 1):
        assert same_bits(row.accumulate(x, axis=axis), np.maximum.accumulate(x, axis=axis))
        assert same_bits(row.reduce(x, axis=axis), np.maximum.reduce(x, axis=axis))
    indices = np.array([3, 3, 5])
    row.at(x[0], indices, np.float32([9, 8, 7]))
    assert x[0, 3] == 9 and x[0, 5] == 7


def test_no_warning_comes_of_a_compiled_loop() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = primitive("log", (np.dtype(float),))(np.array([-1.0, 0.0]))
    assert np.isnan(found[0]) and found[1] == -np.inf


def test_a_primitive_outlives_its_cache() -> None:
    row = primitive("exp", (np.dtype(np.float32),))
    expected = row(np.float32(1))
    primitives._made.clear()
    gc.collect()
    assert row(np.float32(1)) == expected and primitive("exp", (np.dtype(np.float32),))(np.float32(1)) == expected


def test_a_row_is_expanded_until_compiling_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, made = np.dtype(np.float32), list[int]()

    def compile_it() -> Any:
        made.append(1)
        return np.maximum

    row = ExpandedOp("maximum", (kind,) * 2, kind, primitives._numpy_function, compile_it)
    x = values(kind, 1)
    monkeypatch.setattr(expanded_ops, "SEARCH", 1.0)
    monkeypatch.setattr(expanded_ops, "REQUEST", 1.0)
    assert same_bits(row(x, x[3]), row(x, np.full_like(x, x[3]))) and not made
    monkeypatch.setattr(expanded_ops, "REQUEST", 0.0)
    monkeypatch.setattr(expanded_ops, "compile_price", lambda: 1e-9)
    assert same_bits(row(x, x), x) and same_bits(row(x, x), x) and len(made) == 1
    assert is_ready("maximum", (kind,) * 2, kind) and primitives._expanded("exp", (kind,), kind) is None


def test_a_loop_that_the_second_process_compiles_is_loaded_from_disk(
    cold_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, asked = np.dtype(np.float32), list[Any]()

    def submit(function: str, arguments: Any, then: Any = None) -> Request:
        asked.append((function, arguments))
        return Request(b"", then)

    hurried: list[None] = []
    monkeypatch.setattr(runtime, "submit", submit, raising=False)
    monkeypatch.setattr(runtime, "prepare", lambda: hurried.append(None), raising=False)
    monkeypatch.setattr(expanded_ops, "REQUEST", 0.0)
    row = ExpandedOp(
        "maximum", (kind,) * 2, kind, primitives._numpy_function, lambda: find_loop("maximum", (kind,) * 2, kind)
    )
    x = values(kind, 1)
    for _ in range(3):
        assert same_bits(row(x, x), x) and row._made is None
    assert not hurried  # (the process starts at once only if more time is lost)
    monkeypatch.setattr(expanded_ops, "URGENT", (row._noted + row._spent) / 2)
    for _ in range(3):
        assert same_bits(row(x, x), x) and row._made is None
    assert len(hurried) == 1
    ((function, arguments),) = asked
    module, _, name = function.rpartition(".")
    getattr(import_module(module), name)(*arguments)  # as the second process does
    row._request.finish("done")
    assert same_bits(row(x, x), x) and isinstance(row._made, np.ufunc) and len(asked) == 1
    another = ExpandedOp("maximum", (kind,) * 2, kind, primitives._numpy_function, row._compile)
    for _ in range(2):
        assert same_bits(another(x, x), x)
    assert isinstance(another._made, np.ufunc) and len(asked) == 1  # (it is on disk now)


def test_loops_are_found_by_op_and_dtypes(cold_cache: None) -> None:
    kind = np.dtype(float)
    assert find_loop("exp", (kind,), kind) is None
    made = obtain_loop("exp", (kind,), kind)
    found = find_loop("exp", (kind,), kind)
    assert found is not None and found(1.5) == made(1.5) and find_loop("exp2", (kind,), kind) is None


def test_numpys_loops_need_no_code() -> None:
    kind = np.dtype(float)
    assert uses_numpy("add", (kind, kind)) and primitive("add", (kind, kind)) is np.add
    assert not uses_numpy("maximum", (kind, kind)) and not uses_numpy("exp", (kind,))
    assert uses_numpy("cast", (np.dtype(np.int32),), kind) and not uses_numpy("cast", (kind,), np.dtype(np.int32))
