"""Weft's `numpy` namespace, seen by scripts under ``weft run`` and by their libraries."""
