"""Execution of plans, interpretation, the choice between the two, fallback and verification."""
