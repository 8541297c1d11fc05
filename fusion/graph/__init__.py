"""The expression graph: its nodes, index maps, array sizes and reduction orders."""
