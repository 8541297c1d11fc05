"""Decompiler from CPython byte code to syntax trees, for functions without source text."""
