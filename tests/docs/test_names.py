"""Tests that names, links and files in the documents exist.

Public functions must describe their parameters and results. The document about the CUDA model must mention all names of
the model.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import cuda
from weft.dsl.kernel.language.names import TABLE, TRIPLES
from weft.dsl.kernel.library.groups import CoalescedGroup, GridGroup, ThreadBlock, Tile

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(p for p in ROOT.glob("docs/**/*.md") if "_build" not in p.parts)]
KERNELS = (ROOT / "docs" / "guide" / "cuda_model.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*TABLE, *TRIPLES, "laneid", "warpsize"])
def test_the_whole_model_is_described(name: str) -> None:
    assert re.search(rf"`{re.escape(name)}\b", KERNELS), f"docs/guide/cuda_model.md does not name {name}"


@pytest.mark.parametrize("group", [GridGroup, ThreadBlock, Tile, CoalescedGroup])
def test_methods_of_groups_are_described(group: type) -> None:
    section = KERNELS[KERNELS.index("| cooperative groups") :]
    section = section[: section.index("\n\n")]
    methods = {name for name, member in vars(group).items() if callable(member) and not name.startswith("_")}
    assert methods - {"start", "mask"} <= set(re.findall(r"\w+", section))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_names_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for root, dotted in re.findall(r"`@?(cuda|wf)\.([A-Za-z_][\w.]*)", text):
        names = dotted.rstrip(".").split(".")
        module = cuda if root == "cuda" else weft
        assert reduce(getattr, names, module) is not None, f"{path.name}: {root}.{dotted}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (path.parent / target).exists(), f"{path.name}: {target}"


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_files_exist(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    there = {p.as_posix() for folder in ("dsl", "fusion", "codegen", "runtime", "tests") for p in _below(ROOT / folder)}
    for name in re.findall(r"`([\w/]+\*?\.py)`", text):
        pattern = "(.*/)?" + re.escape(name).replace(r"\*", ".*")
        assert "verb_noun" in name or any(re.fullmatch(pattern, file) for file in there), f"{path.name}: {name}"


def _below(folder: Path) -> list[Path]:
    return [path.relative_to(ROOT) for path in folder.rglob("*.py")]


OWN = [getattr(weft, name) for name in (*weft.__all__, "kernel", "vectorize", "guvectorize", "reduce", "sanitize")]
PUBLIC = [f for f in (*OWN, *(getattr(weft.memory, name) for name in weft.memory.__all__)) if inspect.isfunction(f)]


@pytest.mark.parametrize("function", PUBLIC, ids=lambda f: f.__name__)
def test_parameters_and_results_are_described(function: Callable[..., Any]) -> None:
    """Test that public functions of weft and `weft.memory` describe their parameters and results."""
    text, signature = inspect.getdoc(function) or "", inspect.signature(function)
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        assert "Parameters\n---" in text and re.search(rf"\b{name}\b", text), f"{function.__name__}: {name}"
    if signature.return_annotation not in (None, "None", inspect.Signature.empty):
        assert "Returns\n---" in text, function.__name__
