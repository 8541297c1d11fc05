"""Passes over kernel IR, one per file. `codegen/pipeline.py` lists them in order."""
