"""Tier 0, immediate execution: operations on small arrays in host memory run at the call instead of being recorded."""
