"""Decompile byte code of functions without source text to syntax trees. The entry point is `reader.read_function`."""
