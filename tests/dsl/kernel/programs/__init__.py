"""Common CUDA programs with their expected results."""

from __future__ import annotations

from tests.dsl.kernel.programs import cooperating, elementwise
from tests.dsl.kernel.programs.definition import PROGRAMS

__all__ = ["PROGRAMS", "cooperating", "elementwise"]
