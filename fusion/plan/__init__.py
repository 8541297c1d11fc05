"""Planning: from a graph to groups of tasks, what is stored, and the steps of a plan, in memory and on disk."""
