"""The array: its methods, operators, ufuncs and indexing."""
