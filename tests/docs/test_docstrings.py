"""Tests that public names have docstrings, and that their examples are correct."""

from __future__ import annotations

import doctest
import inspect
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from docs.site.public_names import public_names
from weft import cuda
from weft.runtime import select_device

NAMES = public_names()
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    with wf.device("cpu"):
        yield
    select_device(None)  # (an example selects one)


def test_all_kinds_of_names_are_counted() -> None:
    found = {name.name for name in NAMES}
    assert {"weft.sum", "weft.sin", "weft.kernel", "weft.Array.T", "weft.memory.info", "weft.cuda.jit"} <= found
    assert {"weft." + name for name in wf.__all__} <= found | {"weft.memory"}


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.name)
def test_docstring(name: Any) -> None:
    text = inspect.cleandoc(name.target.__doc__ or "")
    assert text.split("\n\n")[0].rstrip().endswith("."), "the first line of a docstring is a sentence"
    if name.needs_example:
        assert "Examples\n--------\n>>> " in text, (
            "there is no section Examples (that of an op: docstrings.UFUNC_EXAMPLES)"
        )


@pytest.mark.filterwarnings("ignore:profiling is for a GPU")
@pytest.mark.parametrize("name", [name for name in NAMES if name.needs_example], ids=lambda name: name.name)
def test_examples_run(name: Any) -> None:
    names = {"np": np, "wf": wf, "weft": wf, "cuda": cuda, "__name__": "__main__"}
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(name.target.__doc__), names, name.name, None, 0)
    shown = io.StringIO()
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=shown.write)
    assert result.attempted
    assert not result.failed, shown.getvalue()
