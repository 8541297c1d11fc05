"""Weft's `numpy` namespace, which scripts under ``weft run`` and their libraries see."""
