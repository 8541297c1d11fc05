"""Execution of plans and interpretation of graphs, with the choice between the two."""
