"""Execution of plans, and interpretation of graphs."""
