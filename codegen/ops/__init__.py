"""The op table, and the functions that expand ops."""
