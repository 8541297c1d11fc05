"""Tests of `Trace`.

It records computations with array sizes, and the conditions under which they may be repeated for other sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from weft.fusion.graph.expr import Expr, is_number
from weft.fusion.graph.index_map import decode_view, disjoint
from weft.fusion.graph.sizes import Trace, common_divisor, convert, from_bytes, greatest, least, square_root


def test_numbers_are_computed_from_others() -> None:
    trace = Trace([6, 4])
    n, k = trace.sizes
    results = [
        n * k + 1,
        (n - k) // 2,
        -n % k,
        3 * n - 2 * n,
        least(n, k, 5),
        greatest(n, k),
        common_divisor(n, k),
        n * 0,
        square_root(n * k),
    ]
    compute = trace.finish(results)
    assert compute([6, 4]) == (25, 1, 2, 6, 4, 6, 2, 0, 4)
    assert compute([9, 10]) == (91, -1, 1, 9, 5, 10, 1, 0, 9)


@pytest.mark.parametrize(
    ("ask", "others", "kept"),
    [
        (lambda n, k: n > k, [(9, 5), (4, 4)], [True, False]),
        (lambda n, k: n == k, [(6, 5), (4, 4)], [True, False]),
        (lambda n, k: bool(n - k), [(6, 5), (4, 4)], [True, False]),
        (lambda n, k: operator.index(n), [(6, 9), (7, 4)], [True, False]),
        (lambda n, k: (n, 2) in [(k, 2)], [(6, 5), (4, 4)], [True, False]),
        (lambda n, k: n in {k: 0}, [(6, 5), (4, 4)], [True, False]),
        (lambda n, k: sorted([n, k]), [(6, 5), (4, 5)], [True, False]),
        (lambda n, k: abs(k - n), [(6, 5), (4, 5)], [True, False]),
        (lambda n, k: np.zeros(n), [(6, 5), (7, 4)], [True, False]),
        (lambda n, k: list(range(k)), [(7, 4), (6, 5)], [True, False]),
        (lambda n, k: n > 1.5 * k - 1, [(9, 5), (5, 4)], [True, False]),
        (lambda n, k: disjoint((0, ((0, 1),)), (k, ()), [n]), [(9, 5), (4, 4)], [True, False]),
        (lambda n, k: decode_view((n, k), (k,), (k,), 0), [(9, 5), (4, 5)], [True, False]),
    ],
)
def test_what_was_asked_is_a_condition(ask: object, others: list[tuple[int, int]], kept: list[bool]) -> None:
    trace = Trace([6, 4])
    ask(*trace.sizes)  # type: ignore[operator]
    compute = trace.finish([])
    assert compute([6, 4]) == ()
    assert [compute(other) is not None for other in others] == kept


ASKED = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("ask", ASKED, ids=lambda f: f.__name__)
def test_a_comparison_holds_for_the_numbers_that_it_holds_for(ask: Callable[[Any, Any], bool]) -> None:
    """Test that a recorded comparison such as ``n < k`` is valid for exactly those sizes n and k that give the result
    it had when it was recorded.
    """
    pairs = list(product(range(2, 5), repeat=2))
    for own in pairs:
        forms: list[tuple[Callable[[Any, Any], bool], Trace]] = [
            (ask, Trace(own)),
            (lambda n, k: ask(n, 3), Trace(own)),
            (lambda n, k: ask(3, k), Trace(own)),
            (lambda n, k: ask(n - k, 0), Trace(own)),
            (lambda n, k: bool(n * 2 - k * 2), Trace(own)),
        ]
        for form, trace in forms:
            assert form(*trace.sizes) == form(*own)
            compute = trace.finish([])
            for other in pairs:
                assert (compute(other) is not None) == (form(*other) == form(*own)), (own, other)


def test_conditions_come_before_what_they_guard() -> None:
    trace = Trace([6, 4])
    n, k = trace.sizes
    result = n // (k - 1) if k != 1 else 0
    compute = trace.finish([result])
    assert compute([6, 3]) == (3,)
    assert compute([6, 1]) is None


def test_numbers_in_a_dtype() -> None:
    trace = Trace([6, from_bytes(np.float32(6).tobytes())])
    n, bits = trace.sizes
    node = Expr("constant", "", (), (bits,), (), np.dtype(np.float32), None)
    assert is_number(node, n)
    compute = trace.finish([convert(n, np.dtype(np.float64))])
    assert compute([6, from_bytes(np.float32(6).tobytes())]) == (from_bytes(np.float64(6).tobytes()),)
    assert compute([7, from_bytes(np.float32(7).tobytes())]) is not None
    assert compute([7, from_bytes(np.float32(6).tobytes())]) is None


def test_conditions_that_nothing_depends_on_are_forgotten() -> None:
    trace = Trace([6, 4])
    n, k = trace.sizes
    assert n > k
    before = trace.mark()
    assert int(n) == 6
    trace.forget(before)
    compute = trace.finish([n + k])
    assert compute([9, 4]) == (13,)
    assert compute([3, 4]) is None
    trace = Trace([6])
    before = trace.mark()
    assert int(trace.sizes[0]) == 6
    trace.forget(before)
    assert int(trace.sizes[0]) == 6  # requests the size again
    assert trace.finish([])([7]) is None


def test_sizes_of_two_traces_are_never_equal() -> None:
    (n,), (m,) = Trace([6]).sizes, Trace([6]).sizes
    assert n != m
    assert m not in {n: 0}
