"""Running of plans and interpreted programs, the choice between them, the fallback and the judge."""
