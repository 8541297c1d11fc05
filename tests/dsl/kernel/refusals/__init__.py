"""Invalid and unsupported programs with their expected errors."""

from __future__ import annotations

from tests.dsl.kernel.refusals import language, types
from tests.dsl.kernel.refusals.definition import LAUNCH, REFUSALS, SYNTAX, TYPE, Refusal

__all__ = ["LAUNCH", "REFUSALS", "SYNTAX", "TYPE", "Refusal", "language", "types"]
