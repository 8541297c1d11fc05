"""Tests of the page that lists where NumPy's functions run."""

from __future__ import annotations

import re
import warnings

import pytest

from tests.dsl import coverage


def test_the_page_is_up_to_date() -> None:
    page = coverage.FILE.read_text(encoding="utf-8")
    if f"each function of NumPy {coverage.version()} on " not in page:
        pytest.skip("the page is of another version of NumPy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert page == coverage.written(), "python -m tests.dsl.coverage"


def test_what_numpy_computes_on_a_gpus_behalf_has_a_reason() -> None:
    page = coverage.FILE.read_text(encoding="utf-8")
    tables = dict(zip(coverage.MODULES, re.split(r"\n## .*\n", page)[1:-1], strict=True))
    hosts = {
        module: re.findall(r"^\| `(\w+)` \| host(.*?) \|", table, re.MULTILINE) for module, table in tables.items()
    }
    assert {name for name, _ in hosts["numpy"]} == coverage.REASONS.keys()
    assert [name for name, _ in hosts["numpy.linalg"]] == ["eig", "eigvals"] and not hosts["numpy.fft"]
    assert all(len(reason) > 20 for found in hosts.values() for _, reason in found)
