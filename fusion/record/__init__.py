"""Recording. Operations on storages become expressions until their values are needed."""
