"""Tests that PTX uses 16-byte vector instructions for aligned arrays. For other arrays, it must not use vector instructions."""

from __future__ import annotations

import re

import pytest

from tests.codegen import kernels
from weft.codegen import lower_stages, resolve_target


@pytest.mark.parametrize(("dtype", "word"), [("f8", "v2.b64"), ("f4", "v4.b32"), ("f2", "v4.b32")])
@pytest.mark.parametrize("align", [16, 64])
def test_vectors_are_sixteen_bytes_wide(dtype: str, word: str, align: int) -> None:
    # sm_100 has 32-byte accesses, which trap if the address is not a multiple of 32
    assembly = lower_stages(kernels.line(dtype, align=align), resolve_target("sm_100"))["asm"]
    assert set(re.findall(r"(?:ld|st)\.global\S*?\.(v\d\.b\d+)", assembly)) == {word}


def test_no_vectors_through_a_pointer_that_may_be_anywhere() -> None:
    assembly = lower_stages(kernels.line("f4", align=4), resolve_target("sm_90"))["asm"]
    assert not re.findall(r"(?:ld|st)\.global\S*?\.v\d", assembly)
