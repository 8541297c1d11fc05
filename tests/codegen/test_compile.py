"""Tests of the files that weft writes if ``WEFT_DUMP`` is set.

If weft cannot write the files, it raises an error.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codegen.kernels import line
from weft.codegen.compile import show_stages
from weft.codegen.kernel_ir.text import print_kernel
from weft.runtime import SettingError, get_device, override


def test_stages_are_written_to_a_folder_or_it_is_said_why_not(tmp_path: Path) -> None:
    kernel, target = line(), get_device("cpu").target
    text, folder = print_kernel(kernel), tmp_path / "a" / "b"
    with override(dump=str(folder)):
        show_stages(target, kernel, text)
    written = {path.suffix: path.read_text() for path in folder.iterdir()}
    assert {".kernel", ".llvm", ".asm"} <= set(written)
    assert all(written.values())
    file = next(folder.iterdir())
    with override(dump=str(file)), pytest.raises(SettingError, match="WEFT_DUMP=.*cannot be written"):
        show_stages(target, kernel, text)
