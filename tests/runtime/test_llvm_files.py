"""Tests of LLVM text in files: named constants, and verification by LLVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from weft.runtime.cpu import interrupts, pool_code
from weft.runtime.cpu.free_list_code import keep_text
from weft.runtime.llvm_files import read_llvm


def test_constants_are_put_in(tmp_path: Path) -> None:
    (tmp_path / "some.ll").write_text("store i32 ${READY}, ptr %at ; ${READY} of ${ALL}\n")
    assert read_llvm(f"{tmp_path}/code.py", "some", READY=0, ALL=6) == "store i32 0, ptr %at ; 0 of 6\n"


@pytest.mark.parametrize("constants", [{}, {"READY": 0}, {"READY": 0, "ALL": 1, "MORE": 2}, {"Ready": 0, "ALL": 1}])
def test_constants_that_do_not_agree_with_the_text(tmp_path: Path, constants: dict[str, int]) -> None:
    (tmp_path / "some.ll").write_text("${READY} ${ALL}")
    with pytest.raises(ValueError, match=r"some\.ll and its constants do not agree about "):
        read_llvm(f"{tmp_path}/code.py", "some", **constants)


@pytest.mark.parametrize("text", [pool_code.text, interrupts.text, lambda: keep_text(112)])
def test_a_module_of_the_runtime_is_verified(text: Callable[[], str]) -> None:
    binding = pytest.importorskip("llvmlite.binding")
    binding.parse_assembly(text()).verify()
