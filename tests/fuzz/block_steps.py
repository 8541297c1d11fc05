"""Random stencil loops for tests of temporal blocking (several time steps in one kernel) with GPU schedules.

Results on the `simt` devices must be bit-identical to NumPy's.

``python -m tests.fuzz.block_steps --programs 200 --seed 0`` runs the loops. Tiles are so small that halos extend over
several tiles.
"""

from __future__ import annotations

import sys
from math import prod

from tests.fuzz import children, steps

MOST_SANITIZED = 700  # maximum number of elements, since checking every access is slow


def check(seed: int) -> str:
    """Return a description of the first difference between NumPy and weft, or ""."""
    device = ("simt", "simt", "simt::backward", "simt::sanitized")[seed % 4]
    if prod(steps.Program(seed).shape) > MOST_SANITIZED:
        device = device.replace("::sanitized", "")
    return steps.check(seed, device)


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.block_steps"))
