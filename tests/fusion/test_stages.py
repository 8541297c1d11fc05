"""Tests of the stages of a kernel.

They complete reductions before operations read the results.
"""

from __future__ import annotations

import numpy as np

import weft as wf


def test_folds_of_an_axis_of_one_element_come_before_what_reads_them() -> None:
    """Test that reductions over axes of one element precede the operations that read their results."""
    x = np.arange(-9, 9).reshape(1, 18)
    a = wf.asarray(x)
    largest = a.max(axis=0, keepdims=True)
    signed = wf.where(a < largest, a, -a)
    some = wf.any(signed == 4, axis=0, keepdims=True)
    wf.evaluate(largest, signed, some)
    assert np.array_equal(np.array(signed), -x)
    assert np.array_equal(np.array(some), -x == 4)
