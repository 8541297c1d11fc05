"""Counts with their nouns in the singular or plural."""

from __future__ import annotations


def counted(count: int, thing: str, things: str = "") -> str:
    """Return a count followed by its noun, such as "1 kernel" or "2,000 kernels"."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"
