"""What the features of a CPU mean for kernels."""

from __future__ import annotations


def has_masks(features: str) -> bool:
    """Return whether a CPU with the given features, as LLVM writes them, accesses vectors under a mask as fast as without a mask."""
    return {"+avx512f", "+avx512bw", "+avx512vl"} <= set(features.split(","))
