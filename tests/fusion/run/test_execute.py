"""First evaluations, in several threads at the same time."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading, time
import numpy as np
import weft as wf

class Slow:
    # (the import of `tiers` takes so long that all threads evaluate during it)
    def find_spec(self, name, path=None, target=None):
        if name == "weft.fusion.run.raised_limit":
            time.sleep(0.5)

sys.meta_path.insert(0, Slow())
arrays = [wf.asarray(np.arange(50_000.0) + k) for k in range(4)]
found = [None] * len(arrays)

def work(k):
    found[k] = float((arrays[k] + 1).max())

threads = [threading.Thread(target=work, args=(k,)) for k in range(len(arrays))]
for thread in threads:
    thread.start()
    time.sleep(0.05)
for thread in threads:
    thread.join()
assert found == [50_000.0 + k for k in range(len(arrays))], found
"""


def test_threads_may_evaluate_while_another_loads_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
