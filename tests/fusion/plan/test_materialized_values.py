"""Tests of the choice between storing a value and computing it again."""

from __future__ import annotations

import weft as wf


def test_steps_between_norms_are_not_computed_again() -> None:
    """A kernel computes one step, not all steps since the last stored value."""
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
