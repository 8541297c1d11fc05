"""Tests of `find_private_arrays`. This pass finds the arrays of which each CPU thread may update a private copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.codegen.passes.find_private_arrays import find_private_arrays
from weft.codegen.passes.forward_variables import forward_variables


def histogram(x, h):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(h, x[i], 1)


def histogram_of_two_parts(x, h):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.max(h, x[i], i)
        if i > 3:
            cuda.atomic.max(h, 0, x[i])


def histogram_of_checked_elements(x, h):
    i = cuda.grid(1)
    if i < x.size:
        assert x[i] < h.size
        cuda.atomic.sub(h, x[i], 1)


PRIVATE = [histogram, histogram_of_two_parts, histogram_of_checked_elements]


def old_values(x, h):
    i = cuda.grid(1)
    x[i] = cuda.atomic.add(h, 0, 1)


def two_kinds(x, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, x[i], 1)
    cuda.atomic.max(h, x[i], 1)


def also_read(x, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, x[i], 1)
    x[i] = h[0]


def also_read_by_a_view(x, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, x[i], 1)
    x[i] = h[1:][0]


def exchanged(x, h):
    cuda.atomic.exch(h, x[0], 1)


OTHERS = [old_values, two_kinds, also_read, also_read_by_a_view, exchanged]


def found(kernel: Callable[..., None], *arguments: Any) -> set[str]:
    """Return the names of the arrays that may have private copies."""
    compiled = cuda.jit(kernel)
    compiled[1, 2](*arguments)
    (made,) = compiled.overloads.values()
    return {a.bounds.pointer.name for a in find_private_arrays(forward_variables(made.kernel)).values()}


@pytest.mark.parametrize("kernel", PRIVATE, ids=lambda kernel: kernel.__name__)
def test_arrays_that_only_atomics_of_one_kind_change(kernel: Callable[..., None]) -> None:
    assert found(kernel, np.zeros(4, np.int32), np.zeros(8, np.int64)) == {"h"}


@pytest.mark.parametrize("kernel", OTHERS, ids=lambda kernel: kernel.__name__)
def test_arrays_with_other_accesses(kernel: Callable[..., None]) -> None:
    assert found(kernel, np.zeros(4, np.int32), np.zeros(8, np.int64)) == set()


def test_arrays_of_floats() -> None:
    assert found(histogram, np.zeros(4, np.int32), np.zeros(8, np.float64)) == {"h"}


def test_only_the_array_with_atomics_must_be_contiguous() -> None:
    x, h = np.zeros(8, np.int32), np.zeros(8, np.int32)
    assert found(histogram, x[::2], h) == {"h"}
    assert found(histogram, x, h[::2]) == set()


def test_an_array_has_the_bounds_of_all_its_axes() -> None:
    def count(x, h):
        i = cuda.grid(1)
        cuda.atomic.or_(h, (x[i], 1), 4)

    compiled = cuda.jit(count)
    compiled[1, 2](np.zeros(4, np.int32), np.zeros((3, 2), np.int32))
    (made,) = compiled.overloads.values()
    (array,) = set(find_private_arrays(forward_variables(made.kernel)).values())
    assert [v.name for v in array.bounds.lengths] == ["h_n0", "h_n1"]
    assert [(o.pointer.name, o.itemsize, len(o.lengths)) for o in array.others] == [("x", 4, 1)]
