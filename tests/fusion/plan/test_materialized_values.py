"""Tests of the choice between storing a value and computing it again."""

from __future__ import annotations

import weft as wf


def test_steps_between_norms_are_not_computed_again() -> None:
    """Test that a kernel computes at most two steps, not all steps since the last stored value."""
    with wf.device("null"):
        w, t = (wf.zeros(100_000) for _ in range(2))
        w, t = w + 1.0, t + 0.5
        wf.evaluate(w, t)
        for _ in range(6):
            g = wf.tanh(w * t) - t
            w = w - g / wf.sqrt((g * g).mean())
        kernels = wf.explain(w).kernels
    assert len(kernels) >= 6
    assert all(sum(formula.count("tanh") for formula in kernel.formulas) <= 2 for kernel in kernels)


def test_steps_between_column_means_are_not_computed_again() -> None:
    with wf.device("null"):
        w, t = (wf.zeros((500, 40)) + k for k in range(2))
        wf.evaluate(w, t)
        for _ in range(6):
            w = wf.tanh(w - w.mean(axis=0)) + t
        kernels = wf.explain(w).kernels
    assert all(formula.count("tanh") <= 1 for kernel in kernels for formula in kernel.formulas)


def test_steps_of_rows_are_computed_again_a_few_times() -> None:
    """Test a loop of nine steps on an array with short rows. A kernel may recompute at most two earlier steps instead of loading their results."""
    with wf.device("null"):
        w, t = (wf.zeros((500, 40)) + k for k in range(2))
        wf.evaluate(w, t)
        for _ in range(9):
            w = wf.tanh(w - w.mean(axis=1, keepdims=True)) + t
        kernels = wf.explain(w).kernels
    formulas = [formula for kernel in kernels for formula in kernel.formulas]
    assert max(formula.count("tanh") for formula in formulas) <= 3
