"""Tests that common CUDA programs have the right results."""

from __future__ import annotations

import pytest

import weft
from tests.dsl.kernel.probes import Probe, same
from tests.dsl.kernel.programs import PROGRAMS

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_program(program: Probe) -> None:
    arguments = program.copies()
    weft.kernel(program.function)[program.launch](*arguments)
    for found, right in zip(arguments, program.wanted(), strict=True):
        same(found, right, program.ulps)
