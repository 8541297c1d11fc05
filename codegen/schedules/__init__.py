"""Schedules: mappings of a kernel's work to the threads of a GPU, one file each. `table.py` lists them."""
