"""Schedules, which map the work of a kernel to the threads of a GPU. `table.py` lists all schedules."""
