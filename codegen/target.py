"""Targets of code generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.codegen.cpu_features import has_masks
from weft.codegen.machines import CPU, GPU, Machine
from weft.runtime import CompileError

# Architecture -> the minimum PTX version that supports it, as LLVM writes versions (63 is PTX 6.3).
ARCHITECTURES = {
    "sm_70": 63,
    "sm_72": 63,
    "sm_75": 63,
    "sm_80": 70,
    "sm_86": 71,
    "sm_87": 74,
    "sm_88": 90,
    "sm_89": 78,
    "sm_90": 78,
    "sm_100": 86,
    "sm_103": 88,
    "sm_110": 90,
    "sm_120": 87,
    "sm_121": 88,
}
CUDA_TRIPLE = "nvptx64-nvidia-cuda"


@dataclass(frozen=True, slots=True)
class Target:
    """A target of code generation: a machine and its features.

    The target is part of the cache key of each kernel.

    Attributes
    ----------
    name : str
        "host", "sm_70" to "sm_121", or "simt:sm_90", "simt:sm_90:backward" and "simt:sm_90:sanitized": the schedules of
        that GPU, run in host code.
    kind : {"cpu", "cuda"}
        What the code runs on.
    triple : str
        LLVM's target triple.
    arch : str
        LLVM's CPU name.
    features : str
        LLVM's feature string.
    vector_bytes : int
        Preferred vector width in bytes: a host register, or 16 on a GPU.
    threads : int
        Host: number of threads that share a kernel. GPU: 0.
    schedule : Target, optional
        The target whose schedules fused kernels use, if it differs from this target: `simt` runs a GPU's schedules on
        the host.
    backward : bool
        Whether the runnable threads of a block run in reverse order (on the `simt` device).
    sanitized : bool
        Whether fused kernels record every access and every barrier of their threads (on the `simt` device).
    """

    name: str
    kind: Literal["cpu", "cuda"]
    triple: str
    arch: str
    features: str = ""
    vector_bytes: int = 16
    threads: int = 0
    schedule: Target | None = None
    backward: bool = False
    sanitized: bool = False

    @property
    def scheduled_for(self) -> Target:
        """The target for which fused kernels are scheduled."""
        return self.schedule or self

    @property
    def machine(self) -> Machine:
        """The machine for which fused kernels are planned and scheduled."""
        return GPU if self.scheduled_for.kind == "cuda" else CPU

    @property
    def extremes(self) -> frozenset[tuple[str, str]]:
        """The minimum and maximum ops for which a GPU has instructions, as (op, dtype) pairs.

        The set is empty on the host. `fmin` and `fmax` ignore NaN.
        """
        if self.kind != "cuda":
            return frozenset()
        numbers = {(name, dtype) for name in ("fmin", "fmax") for dtype in ("float32", "float64")}
        newer = {("minimum", "float32"), ("maximum", "float32")} if self.compute_capability >= 80 else set()
        return frozenset(numbers | newer)

    @property
    def has_masks(self) -> bool:
        """Return whether the target is a CPU with AVX-512, where masked vector accesses cost no more than others."""
        return self.kind == "cpu" and has_masks(self.features)

    @property
    def compute_capability(self) -> int:
        """Return the compute capability of a GPU, such as 90 for sm_90."""
        return int(self.name.removeprefix("sm_"))


def cuda_target(name: str) -> Target:
    """Return the target of the GPU architecture `name`, such as "sm_90".

    Raises CompileError for an unknown architecture.
    """
    if name not in ARCHITECTURES:
        raise CompileError(f"no target {name!r}; there are host, {', '.join(ARCHITECTURES)}")
    return Target(name, "cuda", CUDA_TRIPLE, name, f"+ptx{ARCHITECTURES[name]}", 16, 0)


def newest_architecture(name: str, newest_ptx: int) -> str:
    """Return the newest architecture whose code can run on a GPU of architecture `name`.

    The result is in `ARCHITECTURES`, and needs at most the PTX version `newest_ptx`.

    Raises CompileError if the GPU is older than all architectures in the table, or if the driver is too old.
    """
    limit = int(name.removeprefix("sm_"))
    known = [a for a in ARCHITECTURES if int(a.removeprefix("sm_")) <= limit]
    if not known:
        raise CompileError(f"{name} is older than what code can be generated for: {', '.join(ARCHITECTURES)}")
    fits = [a for a in known if ARCHITECTURES[a] <= newest_ptx]
    if not fits:
        least = min(ARCHITECTURES[a] for a in known)
        raise CompileError(
            f"the driver accepts PTX up to version {newest_ptx / 10:.1f}, but {least / 10:.1f} is needed: update the driver"
        )
    return max(fits, key=lambda a: int(a.removeprefix("sm_")))
