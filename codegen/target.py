"""Targets: what code is generated for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to generate code for; part of every cache key.

    Attributes
    ----------
    name : str
        "host", "sm_70" to "sm_121", or "simt:sm_90": that GPU's schedules in host code.
    kind : {"cpu", "cuda"}
        What the code runs on.
    triple : str
        LLVM's target triple.
    arch : str
        LLVM's CPU name.
    features : str
        LLVM's feature string.
    vector_bytes : int
        Width in bytes of the vectors worth working in: a host register, or 16 on a GPU.
    threads : int
        Host: threads a kernel is split over. GPU: 0.
    schedule : Target, optional
        Whose schedules fused kernels have, where those are not its own: device `simt` runs a GPU's on the host.
    """

    name: str
    kind: Literal["cpu", "cuda"]
    triple: str
    arch: str
    features: str = ""
    vector_bytes: int = 16
    threads: int = 0
    schedule: Target | None = None

    @property
    def scheduled_for(self) -> Target:
        """What passes ask that choose how a kernel's work is divided; all others ask the target itself."""
        return self.schedule or self
