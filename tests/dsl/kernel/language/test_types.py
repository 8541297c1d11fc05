"""Tests of the types of kernel arguments, and of signatures given as text."""

from __future__ import annotations

import enum
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import weft
from weft.dsl.kernel.language import types
from weft.dsl.kernel.language.types import (
    ArrayType,
    Signature,
    Tuple,
    UniTuple,
    float32,
    float64,
    int32,
    int64,
    void,
)

Pair = namedtuple("Pair", "x y")


@dataclass
class Settings:
    steps: int
    rate: np.float32


class Colour(enum.IntEnum):
    RED = 3


SPELLED = {
    "void(float32[:, ::1], int32)": Signature(void, (float32[:, ::1], int32)),
    "(i4, f8[:])": Signature(None, (int32, float64[:])),
    "none(f4[::1], f4[::1, :, :])": Signature(void, (ArrayType(float32, 1, "C"), ArrayType(float32, 3, "F"))),
    "UniTuple(f4, 3)(Tuple((i4, f8)), Array(f4, 0, 'C'))": Signature(
        UniTuple(float32, 3), (Tuple((int32, float64)), ArrayType(float32, 0, "C"))
    ),
    "types.void(types.boolean, b1, bool_)": Signature(void, (types.boolean,) * 3),
    "f4(CPointer(f4), Optional(i4))": Signature(float32, (types.CPointer(float32), types.Optional(int32))),
    " ( ) ": Signature(None, ()),
}


@pytest.mark.parametrize("text", SPELLED)
def test_signatures_from_text(text: str) -> None:
    found = types.parse_signature(text)
    assert found == SPELLED[text]
    assert hash(found) == hash(SPELLED[text])
    assert types.parse_signature(str(found)) == found


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("void(flaot32[:])", "did you mean 'float32'", 5),
        ("void(float32[:, 3])", "an axis of an array", 16),
        ("void(f4[::2])", "an axis of an array", 8),
        ("void(3)", "an argument of a signature is a type", 5),
        ("int32", "void(int32)", 0),
        ("void(", "never closed", 4),
        ("", "cannot be read", 0),
        ("f4(f4[:][:])", "arrays of arrays", 3),
        ("3(f4)", "one type", 0),
        ("os.path(f4)", "a type was expected", 0),
        ("void(f4, out=f4)", "a type was expected", 0),
        ("UniTuple(3)()", "count", 0),
        ("void(f4 if 1 else f8)", "a type was expected", 5),
    ],
)
def test_bad_text_says_what_and_where(text: str, message: str, column: int) -> None:
    with pytest.raises(TypeError) as caught:
        types.parse_signature(text)
    first, shown, caret = str(caught.value).split("\n")
    assert message in first
    assert shown[4:] == text
    assert caret.index("^") - 4 == column


def test_subscripts_and_calls() -> None:
    assert float32[:] == ArrayType(float32, 1, "A")
    assert float32[::1] == ArrayType(float32, 1, "C")
    assert float32[:, ::1].layout == "C"
    assert float32[::1, :].layout == "F"
    assert float32[:, :].layout == "A"
    assert float32(int32, float32[:]) == Signature(float32, (int32, float32[:]))
    assert void() == Signature(void, ())
    assert float32[:] != float32[::1]
    for bad in (slice(1, None), slice(None, None, 2), 3, ()):
        with pytest.raises(TypeError):
            float32[bad]


@pytest.mark.parametrize("value", [3, 2.75, True, np.int8(7)])
@pytest.mark.parametrize("kind", [types.SCALARS[dtype] for dtype in types.SCALARS])
def test_types_cast_numbers(kind: types.ScalarType, value: Any) -> None:
    result = kind(value)
    assert result.dtype == kind.dtype
    assert result == np.asarray(value).astype(kind.dtype)


def test_names_of_one_type_are_one_type() -> None:
    assert types.i4 is types.int32
    assert types.boolean is types.bool_ is types.b1
    assert types.intp == types.from_dtype(np.intp)
    assert types.longlong == types.int64
    assert types.none is types.void
    assert types.float64 == types.from_dtype(float)


RECORD = np.dtype([("a", np.float32), ("b", np.int64, (2,)), ("c", [("x", np.uint8), ("y", np.float64)])])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, int64),
        (2**63, types.uint64),
        (2.0, float64),
        (True, types.boolean),
        (1j, types.complex128),
        (np.float16(1), types.float16),
        (None, types.none),
        (Colour.RED, int64),
        ((1, 2.0), Tuple((int64, float64))),
        ((1, (2, 3)), Tuple((int64, UniTuple(int64, 2)))),
        (Pair(1, np.float32(2)), types.NamedTuple((int64, float32), Pair)),
        (Settings(1, np.float32(2)), types.NamedTuple((int64, float32), Settings)),
        (np.zeros((3, 4), np.float32), float32[:, ::1]),
        (np.zeros((3, 4)).T, float64[::1, :]),
        (np.zeros((4, 4))[::2], float64[:, :]),
        (np.zeros(4)[::2], float64[:]),
        (np.zeros(()), ArrayType(float64, 0, "C")),
        (np.zeros((0, 3))[:, ::2], float64[:, ::1]),
        (np.zeros((1, 5, 1))[:, :, ::-1], float64[:, :, ::1]),
        (np.broadcast_to(1.0, 3), ArrayType(float64, 1, "A", readonly=True)),
        (np.zeros(3, RECORD), types.RecordType(RECORD)[::1]),
        (np.zeros(3, RECORD)[0], types.RecordType(RECORD)),
    ],
    ids=str,
)
def test_types_of_values(value: Any, kind: types.Type) -> None:
    assert types.typeof(value) == kind


def test_types_of_read_only_arrays() -> None:
    for x in (np.ones(3), weft.evaluate(weft.ones(3))):
        x.flags.writeable = False
        assert str(types.typeof(x)) == "readonly float64[::1]"


def test_types_of_weft_arrays() -> None:
    x = weft.ones((3, 4), np.float32)
    assert types.typeof(x) == float32[:, ::1]
    assert types.typeof(x.T) == float32[::1, :]  # type: ignore[attr-defined]
    assert types.typeof(x[:, 1:]) == float32[:, :]  # type: ignore[index]
    assert types.typeof(weft.broadcast_to(x, (2, 3, 4))) == ArrayType(float32, 3, "A", readonly=True)


@pytest.mark.parametrize("value", ["text", np.zeros(2, ">f4"), np.zeros(2, object), {}, [1, 2], 2**64, -(2**70)])
def test_what_kernels_do_not_take(value: Any) -> None:
    with pytest.raises(TypeError):
        types.typeof(value)


def test_records() -> None:
    record = types.from_dtype(RECORD)
    assert isinstance(record, types.RecordType)
    fields = record.fields
    assert fields["a"] == (float32, 0)
    assert fields["b"] == (types.NestedArray(int64, (2,)), 4)
    assert fields["c"][0].fields["y"] == (float64, 1)  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="dtype"):
        types.from_dtype([("what", object)])


def test_lists_of_signatures() -> None:
    one = Signature(void, (float32,))
    assert types.as_signatures(["void(f4)", one, (float32,)]) == (one, one, Signature(None, (float32,)))
    assert types.as_signatures(("f4", np.int32)) == (Signature(None, (float32, int32)),)
    with pytest.raises(TypeError, match="a signature is"):
        types.as_signature(3)
