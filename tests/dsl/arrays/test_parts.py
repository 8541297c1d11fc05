"""The parts of a complex array are views of it."""

from __future__ import annotations

import numpy as np

import weft as wf


def test_the_base_of_a_part_is_its_array() -> None:
    x = wf.array([[1 + 2j, 3], [4, 5j]])
    assert x.real.base is x and x.imag.base is x
    part = x.real
    x += 1 + 1j
    assert part.tolist() == [[2, 4], [5, 1]]
    part -= 1
    np.testing.assert_array_equal(x.numpy(), [[1 + 3j, 3 + 1j], [4 + 1j, 6j]])
