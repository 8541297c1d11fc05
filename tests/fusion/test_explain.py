"""Explanations as text, table and picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np

import weft as wf
from weft.runtime import copy_bandwidth, get_device


def program() -> wf.Array:
    x = wf.asarray(np.ones((50, 40), np.float32))
    top = x.max(axis=1, keepdims=True)
    return (x - top) @ wf.ones(40, dtype=np.float32)


def test_bytes_are_held_against_the_least_possible() -> None:
    found = wf.explain(wf.asarray(np.ones(1000)) * 2 + 1)
    assert found.least == 16000
    assert "(1.00 times the least possible)" in found.summary
    (kernel,) = found.kernels
    assert kernel.reads == ("x0",)
    assert kernel.writes == ("y0",)
    assert kernel.instructions == 2
    assert kernel.seconds is not None
    assert "at the speed of a copy" in str(found)


def test_picture_is_svg_with_a_box_a_kernel() -> None:
    found = wf.explain(program())
    root = ElementTree.fromstring(found.svg())
    texts = [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text")]
    for number, _ in enumerate(found.kernels, 1):
        assert any(text.startswith(f"[{number}]") for text in texts)
    assert "x0" in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}line"))) >= len(found.kernels)


def test_notebooks_show_a_table_and_the_picture() -> None:
    html = wf.explain(program())._repr_html_()
    assert html.count("<tr>") >= 2
    assert "<svg" in html
    assert "nothing to run" in wf.explain(wf.evaluate(program()))._repr_html_()


def test_names_of_the_program_are_escaped() -> None:
    function = wf.vectorize(lambda v: v + 1)
    function.__name__ = "<b>"
    assert "<b>" not in wf.explain(function(wf.ones(3)))._repr_html_()


def test_bandwidth_is_measured_once() -> None:
    device = get_device("cpu")
    first = copy_bandwidth(device)
    assert first is not None
    assert first > 1e8
    assert copy_bandwidth(device) == first
    assert copy_bandwidth(get_device("null")) is None
