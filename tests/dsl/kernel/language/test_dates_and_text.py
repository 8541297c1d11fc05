"""Tests of arrays of datetime64, timedelta64, str and bytes in kernels."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import KernelError, cuda

DAYS = np.array(["2020-01-01", "2020-02-29", "NaT", "1969-12-31"], "M8[D]")
HOURS = np.array(["2020-01-01T05", "2020-02-29T00", "2021-01-01T00", "NaT"], "M8[h]")
SPANS = np.array([3, -4, "NaT", 0], "m8[D]")
OTHERS = np.array([5, 36, 7, "NaT"], "m8[h]")


def apply(function: Any, x: np.ndarray, y: Any) -> np.ndarray:
    """Return the results of a function of two elements, computed in a kernel."""

    @cuda.jit
    def kernel(x: Any, y: Any, out: Any) -> None:
        i = cuda.grid(1)
        out[i] = function(x[i], y[i])

    with np.errstate(all="ignore"):
        out = np.zeros_like(function(x, y))
    kernel[1, x.size](x, y, out)
    return out


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("sub", DAYS, DAYS[::-1].copy()),
        ("sub", DAYS, HOURS),
        ("sub", HOURS, SPANS),
        ("add", DAYS, OTHERS),
        ("add", SPANS, DAYS),
        ("add", SPANS, OTHERS),
        ("mul", SPANS, np.array([2, -3, 4, 5])),
        ("mul", np.array([2.5, 1.5, 4, 5]), SPANS),
        ("truediv", SPANS, np.array([2, -3, 4, 5])),
        ("truediv", SPANS, np.array([0.5, 2.0, 4.0, 1.0])),
        ("truediv", SPANS, OTHERS[:1].repeat(4)),
        ("floordiv", SPANS, OTHERS[:1].repeat(4)),
        ("mod", SPANS, OTHERS[:1].repeat(4)),
        *((name, DAYS, HOURS) for name in ("lt", "le", "gt", "ge", "eq", "ne")),
        *((name, OTHERS, SPANS) for name in ("lt", "eq", "ne")),
    ],
)
def test_operators(name: str, x: np.ndarray, y: np.ndarray) -> None:
    function = getattr(operator, name)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply(function, x, y), function(x, y))


@pytest.mark.parametrize("name", ["neg", "pos", "abs"])
def test_signs(name: str) -> None:
    function = getattr(operator, name)
    np.testing.assert_array_equal(apply(lambda x, _: function(x), SPANS, SPANS), function(SPANS))
    with pytest.raises(KernelError, match="datetime64"):
        cuda.jit(lambda x: function(x[0]))[1, 1](DAYS)


COUNTS = np.array([7, -7, 7, -7, 0, "NaT", 5, -5], "m8[D]")


NUMBERS = (
    np.array([2, 2, -2, -2, 3, 2, 0, 0]),
    np.array([2, 2, -2, -2, 3, 2, 0, 0], np.int8),
    np.array([2.0, -2.0, 0.0, -0.0, 0.0, 1.0, np.nan, np.inf]),
    np.array([2.5, np.inf, -np.inf, np.nan, np.inf, 1.0, 1e30, -1e30]),
)
DURATIONS = np.array([2, 2, -2, -2, 3, 2, 0, "NaT"], "m8[D]"), np.array([1, 1, -1, -1, 0, 1, 0, "NaT"], "m8[h]")


@pytest.mark.parametrize(
    ("name", "y"),
    [
        *((name, y) for name in ("mul", "truediv", "floordiv") for y in NUMBERS),
        *((name, y) for name in ("truediv", "floordiv", "mod") for y in DURATIONS),
    ],
)
def test_operators_at_the_edges(name: str, y: np.ndarray) -> None:
    function = getattr(operator, name)
    with np.errstate(all="ignore"):
        wanted = function(COUNTS, y)
    np.testing.assert_array_equal(apply(function, COUNTS, y), wanted)


def test_dates_as_numbers_constants_and_variables() -> None:
    start, day = np.datetime64("2020-01-30"), np.timedelta64(1, "D")

    @cuda.jit
    def kernel(x: Any, since: Any, out: Any, late: Any) -> None:
        i = cuda.grid(1)
        latest = since
        if x[i] > start and not np.isnat(x[i]):
            latest = x[i]
        out[i] = latest + day
        late[i] = latest != since

    out, late = np.zeros(4, "M8[D]"), np.zeros(4, bool)
    kernel[1, 4](DAYS, np.datetime64("2000-01-01"), out, late)
    wanted = np.where(DAYS > start, DAYS, np.datetime64("2000-01-01"))
    np.testing.assert_array_equal(out, wanted + day)
    np.testing.assert_array_equal(late, DAYS > start)


def test_device_arrays() -> None:
    @cuda.jit
    def later(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        out[i] = x[i] + np.timedelta64(2, "D")

    for device in ("cpu", "simt"):
        with wf.device(device):
            x, out = cuda.to_device(DAYS), cuda.device_array(4, "M8[D]")
            later[1, 4](x, out)
            np.testing.assert_array_equal(out.copy_to_host(), DAYS + np.timedelta64(2, "D"))
            np.testing.assert_array_equal(x.view(np.int64).copy_to_host(), DAYS.view(np.int64))
            assert x.view(np.int64).gpu_data == x.gpu_data
    assert str(cuda.types.typeof(DAYS)) == "datetime64[D][::1]"


def test_records_of_dates_and_text() -> None:
    dtype = np.dtype([("day", "M8[D]"), ("name", "U4"), ("code", "S3"), ("n", np.int32)])

    @cuda.jit
    def kernel(x: Any) -> None:
        i = cuda.grid(1)
        x[i].day = x[i].day + np.timedelta64(i + 1, "D") - np.timedelta64(i, "D")
        x[i]["name"] = "Zoë"
        if x[i].code == b"ab":
            x[i].code = b"xyz"
        x[i].n = len(x[i].code)

    x = np.array([("2020-01-01", "", b"ab", 0), ("2020-01-02", "", b"b", 0)], dtype)
    kernel[1, 2](x)
    assert x.tolist() == np.array([("2020-01-02", "Zoë", b"xyz", 3), ("2020-01-03", "Zoë", b"b", 1)], dtype).tolist()


@pytest.mark.parametrize("dtype", ["U5", "S5"])
def test_text(dtype: str) -> None:
    words = np.array(["ab", "abc", "", "zebra", "b"], dtype)
    constant = "abc" if dtype == "U5" else b"abc"

    @cuda.jit
    def kernel(x: Any, y: Any, out: Any, length: Any, relation: Any) -> None:
        i = cuda.grid(1)
        length[i] = len(x[i])
        relation[i, 0], relation[i, 1], relation[i, 2] = x[i] == constant, x[i] != y[i], x[i] < y[i]
        relation[i, 3], relation[i, 4], relation[i, 5] = x[i] >= y[i], constant > x[i], x[i] <= constant
        if x[i] == constant:
            out[i] = constant
        else:
            out[i] = y[i]

    turned = words[::-1].copy()
    out, length, relation = np.zeros(5, dtype[0] + "2"), np.zeros(5, int), np.zeros((5, 6), bool)
    kernel[1, 5](words, turned, out, length, relation)
    np.testing.assert_array_equal(length, [len(w) for w in words])
    wanted = [words == constant, words != turned, words < turned, words >= turned, constant > words, words <= constant]
    np.testing.assert_array_equal(relation.T, wanted)
    np.testing.assert_array_equal(out, np.where(words == constant, constant, turned).astype(out.dtype))


def test_refusals() -> None:
    def months(x: Any, out: Any) -> None:
        out[0] = x[0] - np.datetime64("2020-01")

    def added(x: Any, out: Any) -> None:
        out[0] = x[0] + x[0]

    def compared(x: Any, out: Any) -> None:
        out[0] = x[0] < 3

    for function, why in ((months, "nonlinear|no fixed length"), (added, "add of"), (compared, "cannot be compared")):
        with pytest.raises(KernelError, match=why):
            cuda.jit(function)[1, 1](DAYS, np.zeros(1, "m8[D]"))
    with pytest.raises(KernelError, match="object"):
        cuda.jit(added)[1, 1](np.array([None]), np.zeros(1))


@pytest.mark.parametrize(
    "signatures", [(), ([cuda.types.NPTimedelta("D")(cuda.types.NPDatetime("D"), cuda.types.NPDatetime("D"))],)]
)
def test_vectorized_functions_of_dates(signatures: Any) -> None:
    def elapsed(start: Any, end: Any) -> Any:
        return end - start

    function = cuda.vectorize(*signatures)(elapsed) if signatures else cuda.vectorize(elapsed)
    np.testing.assert_array_equal(function(DAYS, DAYS[:, None]), DAYS[:, None] - DAYS)
    np.testing.assert_array_equal(function(DAYS, np.datetime64("2020-01-01")), np.datetime64("2020-01-01") - DAYS)
    out = np.zeros(4, "m8[D]")
    assert function(DAYS, DAYS[::-1], out=out) is out
    np.testing.assert_array_equal(out, DAYS[::-1] - DAYS)
    kept = np.ones(4, "m8[D]")
    assert function(DAYS, DAYS, out=(kept,), where=np.array([True, False, True, False])) is kept
    np.testing.assert_array_equal(kept, np.array([0, 1, "NaT", 1], "m8[D]"))
    assert function(DAYS[:0], DAYS[:0]).shape == (0,)


def test_generalized_functions_of_dates() -> None:
    date, duration = cuda.types.NPDatetime("D"), cuda.types.NPTimedelta("D")

    @cuda.guvectorize([cuda.types.void(date, date, duration[:])], "(),()->()")
    def elapsed(start: Any, end: Any, out: Any) -> None:
        out[0] = end - start

    @cuda.guvectorize([cuda.types.void(date[:], duration[:])], "(n)->()")
    def span(days: Any, out: Any) -> None:
        out[0] = days[days.size - 1] - days[0]

    np.testing.assert_array_equal(elapsed(DAYS, DAYS[::-1]), DAYS[::-1] - DAYS)
    grid = np.stack([DAYS, DAYS[::-1]])
    np.testing.assert_array_equal(span(grid), grid[:, -1] - grid[:, 0])
    out = np.zeros(2, "m8[D]")
    assert span(grid, out) is out
    np.testing.assert_array_equal(out, grid[:, -1] - grid[:, 0])
