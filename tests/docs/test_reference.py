"""Tests of the generated reference: public names, ops, errors and commands."""

from __future__ import annotations

import re
from functools import cache

import pytest

pytest.importorskip("numpydoc")

import weft as wf
from docs.site.public_names import public_names
from docs.site.reference import REMEDIES, reference_pages
from weft.codegen import OPS
from weft.dsl.arrays.ufunc import UFunc


@cache
def pages() -> dict[str, str]:
    return reference_pages()


def test_every_public_name_has_an_entry() -> None:
    described = set(re.findall(r"^\.\. py:\w+:: ([\w.]+)", "\n".join(pages().values()), re.MULTILINE))
    aliases = {
        name.name
        for name in public_names()
        if isinstance(name.target, UFunc) and name.name != f"weft.{name.target.definition.name}"
    }
    constants = {"weft.cuda.gpus", "weft.cuda.runtime"}
    assert {name.name for name in public_names()} - aliases - constants <= described


def test_every_op_has_a_row() -> None:
    for name, op in OPS.items():
        if not name.startswith("_") and hasattr(wf, name) and op.body is None:
            assert re.search(rf"^   \* - .*\b{name}\b", pages()["ops"], re.MULTILINE), name


def test_every_error_has_a_remedy() -> None:
    kinds = {n for n in wf.__all__ if isinstance(getattr(wf, n), type) and issubclass(getattr(wf, n), Exception)}
    assert kinds <= set(REMEDIES)


def test_every_command_is_described() -> None:
    for name in ("run", "info", "doctor", "cache"):
        assert f"weft {name}\n---" in pages()["commands"]
