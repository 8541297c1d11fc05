"""Execution of plans and interpreted programs, the choice between them, fallback and verification."""
