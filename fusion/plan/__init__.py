"""Planning: from a graph to groups of tasks, materialized values, and the steps of a plan."""
