"""Tests that linking only the required libdevice functions gives the same instructions as linking all of libdevice.

Each function is extracted from the library only once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

from weft.codegen.llvm import libdevice, nvptx
from weft.codegen.target import cuda_target
from weft.runtime import CompileError, find_libdevice, override

pytestmark = pytest.mark.skipif(find_libdevice() is None, reason="libdevice is not here")


def text_of(**calls: str) -> str:
    """Return the LLVM IR of a kernel that calls functions of one argument.

    `calls` maps the names of the functions to types.
    """
    lines = ['target triple = "nvptx64-nvidia-cuda"']
    lines += [f"declare {kind} @{name}({kind})" for name, kind in calls.items()]
    lines.append("define ptx_kernel void @probe(ptr addrspace(1) %p) {")
    for k, (name, kind) in enumerate(calls.items()):
        lines += [
            f"  %a{k} = load {kind}, ptr addrspace(1) %p",
            f"  %b{k} = call {kind} @{name}({kind} %a{k})",
            f"  store {kind} %b{k}, ptr addrspace(1) %p",
        ]
    return "\n".join([*lines, "  ret void", "}"])


def ptx_of(text: str) -> str:
    module, machine = nvptx._optimized(text, cuda_target("sm_90"), True)
    return str(machine.emit_assembly(module))


def link_whole(module: llvm.ModuleRef) -> None:
    """Link the whole library, and remove its unused functions before optimization."""
    path = find_libdevice()
    assert path is not None
    library = llvm.parse_bitcode(path.read_bytes())
    names = [f.name for f in library.functions if not f.is_declaration]
    module.link_in(library)
    for name in names:
        module.get_function(name).linkage = "internal"
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine()
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0)))


@pytest.fixture(autouse=True)
def _nothing_in_memory() -> None:
    libdevice._extracted.cache_clear()
    libdevice._whole.cache_clear()


@pytest.mark.parametrize(
    "calls",
    [
        {"__nv_exp": "double"},
        {"__nv_sin": "double", "__nv_cos": "double"},
        {"__nv_tgamma": "double", "__nv_erfinv": "double", "__nv_lgammaf": "float"},
        {"__nv_sinf": "float", "__nv_tanf": "float", "__nv_expf": "float", "__nv_log1p": "double"},
    ],
)
def test_the_code_is_that_of_the_whole_library(calls: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    own = ptx_of(text_of(**calls))
    monkeypatch.setattr(libdevice, "link", link_whole)
    whole = ptx_of(text_of(**calls))

    def shape(ptx: str) -> list[str]:
        """Return the sorted mnemonics of PTX."""
        return sorted(line.split()[0] for line in ptx.splitlines() if line.startswith("\t") and line.split())

    assert shape(own) == shape(whole)
    assert len(own) < 1.02 * len(whole)


def test_a_function_is_taken_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with override(cache_dir=str(tmp_path), cache=True):
        first = ptx_of(text_of(__nv_exp="double"))

        def refuse(path: str) -> Any:
            raise AssertionError("the whole library was read again")

        monkeypatch.setattr(libdevice, "_whole", refuse)
        assert ptx_of(text_of(__nv_exp="double")) == first
        libdevice._extracted.cache_clear()  # as in a new process
        assert ptx_of(text_of(__nv_exp="double")) == first
        libdevice._extracted.cache_clear()
    with override(cache=False), pytest.raises(AssertionError, match="read again"):
        ptx_of(text_of(__nv_exp="double"))


def test_what_it_does_not_have() -> None:
    with pytest.raises(CompileError, match="no function __nv_nonsense"):
        ptx_of(text_of(__nv_nonsense="double"))
    with pytest.raises(CompileError, match=r"__nv_exp is double \(double\), not float \(float\)"):
        ptx_of(text_of(__nv_exp="float"))


def test_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    libdevice._library.cache_clear()
    monkeypatch.setattr(libdevice, "find_libdevice", lambda: None)
    with pytest.raises(CompileError, match="pip install"):
        ptx_of(text_of(__nv_exp="double"))
    libdevice._library.cache_clear()
