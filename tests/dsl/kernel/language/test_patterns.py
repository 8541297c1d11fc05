"""Tests that class patterns in kernels match values as in Python."""

# mypy: ignore-errors

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import weft


@dataclass
class Point:
    x: float
    y: float


def classify(n, x, out):
    a = int(n[0])
    match a:
        case int(v):
            out[0] = v
    match a:
        case int(3):
            out[1] = 1
        case int(5) | float(5):
            out[1] = 2
    match (a, 2):
        case tuple((v, 2)):
            out[2] = v
    match a > 3:
        case int():
            out[3] = 1
    match Point(float(x[0]), 2.0):
        case (_, _):
            out[4] = 1
        case Point(v, y=w):
            out[4] = v + w


def test_class_patterns():
    arguments = np.array([5]), np.array([0.5])
    wanted, found = np.zeros(5), np.zeros(5)
    classify(*arguments, wanted)
    weft.kernel(classify)[1, 1](*arguments, found)
    np.testing.assert_array_equal(found, wanted)
    assert wanted.all()


def test_a_class_pattern_with_too_many_parts():
    def kernel(n):
        match int(n[0]):
            case int(3, 4):
                n[0] = 1

    with pytest.raises(weft.KernelError, match="int\\(\\) accepts 1 positional pattern"):
        weft.kernel(kernel)[1, 1](np.array([5]))
