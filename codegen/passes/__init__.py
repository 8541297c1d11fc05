"""Passes over kernel IR, one per file. `codegen/pipeline.py` lists the passes in order."""
