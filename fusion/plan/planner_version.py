"""The version of the planner, which the keys of plans and compiled loops in the disk cache contain."""

from __future__ import annotations

import os
from functools import lru_cache

from weft.codegen import code_version
from weft.runtime import source_digest


@lru_cache(maxsize=1)
def planner_version() -> str:
    """Return a digest of the source text of the planner and the code generator."""
    return code_version() + source_digest(os.path.dirname(os.path.dirname(__file__)))
