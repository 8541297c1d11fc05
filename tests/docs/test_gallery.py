"""Tests that the gallery has a page for each program.

Programs in the gallery's folder are run on weft and compared with NumPy.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.gallery import OWN, PROGRAMS
from benchmarks.subjects import compare, load_module, numpy_results
from docs.site.gallery import TEXTS, TIMES, gallery_pages, read_times, time_table
from docs.site.measured import load, measured_page
from weft.dsl.script.redirect import load_program


def test_every_program_has_a_text_and_a_picture() -> None:
    assert len(PROGRAMS) >= 16
    assert set(TEXTS) == set(PROGRAMS)
    pictures = pytest.importorskip("docs.site.pictures", exc_type=ImportError)
    assert set(pictures.DRAW) == set(PROGRAMS)


def test_times_are_those_of_the_sizes_shown() -> None:
    measured = {result["program"]: result["size"] for result in json.loads(TIMES.read_text())["results"]}
    assert measured
    assert measured.items() <= {name: shown.size for name, shown in PROGRAMS.items()}.items()


def test_pages_show_program_and_times() -> None:
    pages = gallery_pages()
    assert set(pages) == {*PROGRAMS, "index"}
    for name in PROGRAMS:
        assert f"{name}.py" in pages[name] and f"![{TEXTS[name][0]}]" in pages[name]


def test_slower_programs_say_why() -> None:
    firsts = {f"first call, {kind}": 1.0 for kind in ("NumPy", "empty cache", "filled cache")}
    result = {"size": 1000, "numpy": 1.0, "weft": 2.0, "ratio": 0.5, "how": "times", **firsts}
    assert "This program runs faster with NumPy than with weft" in time_table(result)
    assert "2 times as fast as NumPy" in time_table({**result, "ratio": 2.0})


def test_every_program_has_times() -> None:
    assert set(read_times()) == set(PROGRAMS)


@pytest.mark.parametrize("name", [name for name, shown in PROGRAMS.items() if shown.folder == OWN])
def test_programs_have_numpys_results(name: str) -> None:
    path = PROGRAMS[name].path(name)
    theirs = numpy_results([], load_module(path).main(60))
    ours = numpy_results([], [np.asarray(value) for value in load_program(path, name)["main"](60)])
    assert not compare(ours, theirs)


def test_every_measured_program_is_on_the_page() -> None:
    page = measured_page()
    for result in load("npbench/npbench-M")["results"]:
        assert f"| {result['program']} | " in page
