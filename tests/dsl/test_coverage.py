"""The page that lists where NumPy's functions run is up to date."""

from __future__ import annotations

import re
import warnings

import pytest

from tests.dsl import coverage


def test_the_page_is_up_to_date() -> None:
    page = coverage.FILE.read_text(encoding="utf-8")
    if f"with NumPy {coverage.version()}." not in page:
        pytest.skip("the page is of another version of NumPy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert page == coverage.written(), "python -m tests.dsl.coverage"


def test_what_numpy_computes_on_a_gpus_behalf() -> None:
    page = coverage.FILE.read_text(encoding="utf-8")
    tables = dict(zip(coverage.MODULES, re.split(r"\n## .*\n", page)[1:-1], strict=True))
    hosts = {module: re.findall(r"^\| `(\w+)` \| host", table, re.MULTILINE) for module, table in tables.items()}
    allowed = "apply_along_axis histogramdd packbits poly polydiv polyfit polyint roots spacing unpackbits".split()
    assert set(hosts["numpy"]) <= set(allowed)
    # factorizations and transforms
    assert len(hosts["numpy.linalg"]) <= 17 and len(hosts["numpy.fft"]) <= 14
