"""Kernel IR: its operations, builder, text form, verifier and reference interpreter."""
