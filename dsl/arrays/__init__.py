"""The array class: its methods, operators and indexing, and the ufuncs."""
