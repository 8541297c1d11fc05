"""The op table, with one entry per scalar operation, and the functions that expand ops."""
