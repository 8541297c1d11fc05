"""Tier 0: immediate execution of small work in host memory."""
