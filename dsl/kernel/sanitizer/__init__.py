"""The kernel sanitizer, which detects invalid accesses, races and incomplete barriers."""
