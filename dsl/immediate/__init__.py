"""Tier 0: small work on host memory, done at the call."""
