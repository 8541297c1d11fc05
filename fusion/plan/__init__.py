"""Planning: from a graph to tasks, groups, materialized values, and the steps of a plan."""
