"""Passes over kernel IR, with one file per pass.

`codegen/pipeline.py` lists the passes in order.
"""
