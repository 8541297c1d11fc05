"""Recording: operations on storages become expressions until a value is needed."""
