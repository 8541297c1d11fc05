"""Passes over kernel IR, one in each file; `codegen/pipeline.py` lists them in order."""
