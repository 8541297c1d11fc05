"""Tier 0, immediate execution: operations on small arrays in host memory are executed, not recorded, at the call."""
