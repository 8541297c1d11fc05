"""The bodies of kernels: which of two concatenated parts most indices take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize(
    ("program", "likely"),
    [
        (lambda x: wf.concatenate([x, x * 2], axis=1) + 1, []),
        (lambda x: wf.concatenate([x, x[:, :20]], axis=1) + 1, []),
        (lambda x: wf.concatenate([x, x[:, :4]], axis=1) + 1, ["likely=False"]),
        (lambda x: wf.roll(x, 1, axis=1) + x, ["likely=True"]),
        (lambda x: wf.roll(x, 1, axis=0) + x, ["likely=True"]),
        (lambda x: wf.roll(x, 30, axis=1) + x, []),
    ],
)
def test_a_part_is_likely_if_it_has_nearly_all_elements(
    program: Callable[[wf.Array], wf.Array], likely: list[str]
) -> None:
    x = wf.asarray(np.arange(6400.0).reshape(80, 80))
    text = str(wf.explain(program(x), stage="kernel"))
    assert [word for word in text.split() if word.startswith("likely=")] == likely
