"""Decompiler from CPython byte code to syntax trees, for functions that have no source text."""
