"""A command that runs random cases in child processes.

It reports crashes, and continues. The module with the cases has a function ``check(seed) -> str``, which returns a
description of a fault, or "". The command prints the faults, and the number of cases with a fault.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import subprocess
import sys
import traceback

BATCH = 100
_AT = "at seed "


def main(module: str, most_seconds: float = 600) -> int:
    """Implement a command such as ``python -m module --programs 100 --seed 0``.

    Return the number of cases with a fault, but at most 100, as the exit status.
    """
    parser = argparse.ArgumentParser(prog=module)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if options.child:
        return _child(module, range(options.seed, options.seed + options.programs))
    bad, seed, end = 0, options.seed, options.seed + options.programs
    while seed < end:
        count = min(BATCH, end - seed)
        lines, code, trouble = _run(module, seed, count, most_seconds)
        for line in lines:
            if not line.startswith(_AT):
                print(line, flush=True)
        last = next((int(line[len(_AT) :]) for line in reversed(lines) if line.startswith(_AT)), seed)
        if code < 0:  # continue after the case that crashed the child
            print(f"seed {last} ended the process ({code}): {trouble[-1500:]}", flush=True)
            bad += 1
            seed = last + 1
            continue
        bad += code
        seed += count
    print(f"{options.programs} cases of {module}, {bad} with a fault")
    return min(bad, 100)


def _run(module: str, seed: int, count: int, most_seconds: float) -> tuple[list[str], int, str]:
    command = [sys.executable, "-W", "ignore", "-m", module, "--child", "--seed", str(seed), "--programs", str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=most_seconds)
    except subprocess.TimeoutExpired as late:
        out = late.stdout or b""
        return out.decode().splitlines(), -1, f"no end after {most_seconds} s"
    if done.returncode > count:
        return done.stdout.splitlines(), -done.returncode, done.stderr
    return done.stdout.splitlines(), done.returncode, done.stderr


def _child(module: str, seeds: range) -> int:
    faulthandler.enable()
    check = importlib.import_module(module).check
    bad = 0
    for seed in seeds:
        print(f"{_AT}{seed}", flush=True)
        try:
            trouble = check(seed)
        except Exception:
            trouble = f"seed {seed}: {traceback.format_exc(limit=-3)}"
        if trouble:
            bad += 1
            print(trouble, flush=True)
    return bad
