"""Schedules: ways to divide a kernel's work among the threads of a GPU, a file each; `table.py` lists them."""
