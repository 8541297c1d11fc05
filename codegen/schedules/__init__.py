"""GPU schedules, which map the work of a kernel to threads.

`table.py` lists all schedules.
"""
