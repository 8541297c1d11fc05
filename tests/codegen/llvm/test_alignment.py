"""Vector accesses promise no more alignment than the pointer has."""

from __future__ import annotations

import re

import pytest

from tests.codegen import kernels
from weft.codegen import lower_stages, resolve_target


@pytest.mark.parametrize(
    ("dtype", "align", "expected"), [("f8", 16, 16), ("f8", 64, 32), ("f4", 16, 16), ("f2", 64, 16)]
)
def test_alignment_of_vectors(dtype: str, align: int, expected: int) -> None:
    stages = lower_stages(kernels.line(dtype, align=align), resolve_target("sm_100"))
    found = {int(n) for n in re.findall(r"load <\d+ x \w+>.*align (\d+)", stages["llvm"])}
    assert found == {expected}


def test_no_32_byte_access_to_a_16_byte_pointer() -> None:
    # sm_100 has 32-byte accesses, which trap on an address that is no multiple of 32
    wide = re.compile(r"(ld|st)\.global\S*\.v4\.b64|\.v8\.b32")
    assert not wide.search(lower_stages(kernels.line("f8", align=16), resolve_target("sm_100"))["asm"])
