"""Kernel IR: its operations, builder, text form and verifier."""
