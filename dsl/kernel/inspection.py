"""What can be asked of a compiled kernel: its code in every stage, its resources."""

from __future__ import annotations


class Inspection:
    """The inspecting methods of kernels."""
