"""The `numpy` namespace that libraries and scripts under ``weft run`` see, implemented by weft."""
