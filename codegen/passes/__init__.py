"""Passes over kernel IR, a file each; `codegen/pipeline.py` lists them in the order in which they run."""
