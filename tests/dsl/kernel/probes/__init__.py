"""Language probes: small test kernels with their expected results.

Each probe tests one construct.
"""

from __future__ import annotations

from tests.dsl.kernel.probes import arrays, control_flow, kinds, library, more, scopes, threads, values, warps, wholes
from tests.dsl.kernel.probes.definition import PROBES, Probe, same

__all__ = [
    "PROBES",
    "Probe",
    "arrays",
    "control_flow",
    "kinds",
    "library",
    "more",
    "same",
    "scopes",
    "threads",
    "values",
    "warps",
    "wholes",
]
