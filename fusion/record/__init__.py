"""Recording: operations on storages become expressions until their values are needed."""
