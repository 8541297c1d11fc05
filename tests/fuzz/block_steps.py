"""Random stencil loops, whose time steps are blocked on a GPU.

The bits are compared between NumPy and device `simt`.

``python -m tests.fuzz.block_steps --programs 200 --seed 0``. Tiles are so small that halos extend over several of them.
"""

from __future__ import annotations

import sys
from math import prod

from tests.fuzz import children, steps

WATCHED = 700  # elements at most, for events take long to judge


def check(seed: int) -> str:
    """Return the differences between NumPy and weft, or ""."""
    device = ("simt", "simt", "simt::backward", "simt::watched")[seed % 4]
    if prod(steps.Program(seed).shape) > WATCHED:
        device = device.replace("::watched", "")
    return steps.check(seed, device)


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.block_steps"))
