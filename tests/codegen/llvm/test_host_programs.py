"""The shared programs of explicit kernels, on the CPU device: what the interpreter gives, compiled code gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.explicit_kernels import PROGRAMS
from tests.codegen.llvm.grids import run
from weft.codegen import Pointer
from weft.codegen.llvm import host


@pytest.mark.parametrize("form", ["loops", "coroutines"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "coroutines":
        monkeypatch.setattr(host, "split_at_meetings", lambda kernel: None)
    program = PROGRAMS[name]()
    arguments = []
    for parameter, argument in zip(program.kernel.parameters, program.arguments, strict=True):
        arguments.append(argument.copy() if isinstance(parameter.value.type, Pointer) else argument)
    run(program.kernel, arguments, program.grid, program.block, program.shared_bytes)
    for found, wanted in zip(arguments, program.expected, strict=True):
        if wanted is not None:
            np.testing.assert_array_equal(found, wanted)
