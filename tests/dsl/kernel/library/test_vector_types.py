"""Tests of vector types and library functions outside of kernels."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.dsl.kernel.exact import round_fraction
from weft.dsl.kernel.language.names import NAMES, TABLE, Namespace
from weft.dsl.kernel.language.types import element_dtype
from weft.dsl.kernel.library.vector_types import VECTOR_ALIASES, VECTOR_TYPES, vector_type
from weft.dsl.kernel.python_mode.argument_conversion import convert, fused_multiply_add

NAMED: Any = VECTOR_ALIASES  # untyped, since operators are installed by name
float2, float3, float4 = (NAMED[f"float{n}"] for n in (2, 3, 4))
int2, uchar2, double2 = NAMED["int2"], NAMED["uchar2"], NAMED["double2"]


def test_there_are_forty_with_cudas_names() -> None:
    assert len(VECTOR_TYPES) == 40
    assert float4 is VECTOR_TYPES["float32x4"]
    assert VECTOR_ALIASES["ulonglong3"] is VECTOR_TYPES["uint64x3"]
    assert {kind.lanes for kind in VECTOR_TYPES.values()} == {1, 2, 3, 4}
    assert vector_type("u1", 2) is uchar2


def test_constructors_take_numbers_and_vectors() -> None:
    v: Any = float4(1, float2(2, 3), np.int8(4))
    assert (v.x, v.y, v.z, v.w) == (1, 2, 3, 4)
    assert {type(c) for c in v} == {np.float32}
    assert list(uchar2(300, -1.9)) == [44, 0]
    assert float4(v) == v and float4(v) is not v


def test_components_are_assigned_in_their_dtype() -> None:
    v: Any = int2(1, 2)
    v.x = 7.9
    v.y -= 5
    assert repr(v) == "int32x2(7, -3)"
    with pytest.raises(AttributeError):
        v.z = 1


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: float2(1, 2) + float2(0.5, 1), float2(1.5, 3)),
        (lambda: 2 * float2(1, 2) - 1, float2(1, 3)),
        (lambda: float2(1, 2) * np.float64(2), double2(2, 4)),
        (lambda: np.float32(3) / float2(1, 2), float2(3, 1.5)),
        (lambda: int2(-3, 4) / 2, double2(-1.5, 2)),
        (lambda: int2(-3, 4) // 2, int2(-2, 2)),
        (lambda: int2(7, 4) % int2(4, 3) | 8, int2(11, 9)),
        (lambda: uchar2(1, 2) - 2, uchar2(255, 0)),
        (lambda: -(int2(1, -2) ** 2), int2(-1, -4)),
        (lambda: ~abs(int2(-1, 2)) << 1, int2(-4, -6)),
    ],
)
def test_arithmetic_is_by_component(make: Callable[[], Any], wanted: Any) -> None:
    found = make()
    assert found == wanted
    assert type(found) is type(wanted)


def test_equality_is_one_answer() -> None:
    assert (float2(1, 2) == float2(1, 2)) is True
    assert (float2(1, 2) != float2(1, 3)) is True
    assert float2(1, 2) == double2(1, 2)
    assert float2(1, 2) != float3(1, 2, 3)
    assert float2(1, math.nan) != float2(1, math.nan)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda: float4(1), "takes 4 components, not 1"),
        (lambda: float2(float3(1, 2, 3)), "takes 2 components, not 3"),
        (lambda: float2(1, "a"), "a number, not str"),
        (lambda: float2(1, 2) + float3(1, 2, 3), "different numbers of lanes"),
        (lambda: float2(1, 2) + "a", "unsupported operand"),
        (lambda: vector_type(np.float16, 2), "no vector type of 2 float16"),
    ],
)
def test_what_cannot_be(use: Callable[[], Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        use()


def test_copies_are_vectors_of_their_own() -> None:
    v: Any = float2(1, 2)
    for other in (pickle.loads(pickle.dumps(v)), copy.deepcopy(v)):
        assert other == v
        other.x = 5
        assert v.x == 1


# -- conversion ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [
        (300, "u1", 44),
        (-1, "u8", 2**64 - 1),
        (2**70 + 5, "i4", 5),
        (np.int64(-129), "i1", 127),
        (1e30, "i8", 2**63 - 1),
        (-1e30, "u2", 0),
        (math.nan, "i4", 0),
        (-math.inf, "i2", -(2**15)),
        (2.9, "i4", 2),
        (3 + 4j, "f4", 3),
        (True, "f8", 1),
        (0.1, "f2", np.float16(0.1)),
        (1e10, "f2", math.inf),
    ],
)
def test_conversion(value: Any, dtype: str, wanted: Any) -> None:
    with np.errstate(all="ignore"):
        found = convert(value, np.dtype(dtype))
    assert found == wanted
    assert found.dtype == dtype


def test_dtypes_of_elements() -> None:
    assert element_dtype(np.float32) == element_dtype("f4") == np.dtype("f4")
    assert element_dtype([("a", "i4")]).names == ("a",)
    for wrong in ("U3", object, None):
        with pytest.raises(TypeError):
            element_dtype(wrong)


def test_fma_is_exact() -> None:
    source = np.random.default_rng(4)
    for _ in range(300):
        a, b = source.normal(size=2) * 10.0 ** source.integers(-150, 150, 2)
        c = -a * b * (1 + source.integers(-1, 2) * 2.0**-52)
        found = fused_multiply_add(np.float64(a), np.float64(b), np.float64(c))
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        assert abs(Fraction(float(found)) - exact) <= abs(exact) * Fraction(2) ** -53 + Fraction(2) ** -1075


@pytest.mark.parametrize(
    ("a", "b", "c", "wanted"),
    [
        (1e300, 1e300, -math.inf, -math.inf),
        (math.inf, 0.0, 1.0, math.nan),
        (-0.0, 1.0, -0.0, -0.0),
        (-0.0, 1.0, 0.0, 0.0),
        (1.0, -1.0, 1.0, 0.0),
        (1e-200, -1e-200, 0.0, -0.0),
        (1e300, 1e300, 0.0, math.inf),
    ],
)
def test_corners_of_fma(a: float, b: float, c: float, wanted: float) -> None:
    with np.errstate(all="ignore"):
        found = fused_multiply_add(np.float64(a), np.float64(b), np.float64(c))
    np.testing.assert_equal(found, wanted)
    assert np.signbit(found) == np.signbit(wanted) or math.isnan(wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rounding_of_fractions(dtype: Any) -> None:
    info = np.finfo(dtype)
    one, step = Fraction(1), Fraction(float(info.eps))
    assert round_fraction(one + step / 2, np.dtype(dtype)) == 1  # a tie goes to even
    assert round_fraction(one + 3 * step / 2, np.dtype(dtype)) == dtype(1) + 2 * info.eps
    assert (
        round_fraction(Fraction(float(info.smallest_subnormal)) * 3 / 2, np.dtype(dtype)) == 2 * info.smallest_subnormal
    )
    assert round_fraction(-Fraction(float(info.max)) * 2, np.dtype(dtype)) == -math.inf
    tiny = round_fraction(-Fraction(float(info.smallest_subnormal)) / 4, np.dtype(dtype))
    assert tiny == 0 and np.signbit(tiny)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(NAMES))
def test_names_survive_pickling(path: str) -> None:
    held = NAMES[path]
    assert pickle.loads(pickle.dumps(held)) == held
    if path in TABLE:
        assert held.path == path
        assert held.__doc__ and held.__doc__.endswith(".")
    if isinstance(held, Namespace):
        assert dir(held)


def test_a_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match=r"cuda\.atomic has no 'mul'; it has add, and_"):
        _ = NAMES["atomic"].mul
