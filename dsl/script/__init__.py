"""Weft's `numpy` namespace for scripts under ``weft run`` and their libraries."""
