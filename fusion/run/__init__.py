"""Execution of plans, interpretation, the choice between both, fallback and verification."""
