"""``python -m tests.fuzz --programs 3000 --seed 0`` runs random programs in child processes.

With ``--kernels 1000``, it runs random kernels instead. The command prints the programs or kernels whose results differ
from the expected results, and the crashes of child processes.
"""

from __future__ import annotations

import argparse
import faulthandler
import subprocess
import sys
from contextlib import nullcontext
from functools import partial

BATCH = 100


def run_here(options: argparse.Namespace) -> int:
    """Run the programs or kernels in this process, and return the number of those with a fault."""
    from tests.fuzz.kernels import check_kernel
    from tests.fuzz.programs import check
    from tests.stand_in import RunningDevice, RunningStandIn, driver
    from weft.runtime import override
    from weft.runtime.devices import _devices

    device = options.device
    if device == "stand-in":
        driver.PADDING = 1 << 22  # (a kernel may get an address far before the part of an array that it reads)
        made = RunningDevice(RunningStandIn(1 << 30))
        device = made.name
        _devices[device] = made
    run = check_kernel if options.kernels else partial(check, device=device, large=options.large)
    bad = 0
    with nullcontext() if options.immediate is None else override(immediate=options.immediate):
        for seed in range(options.seed, options.seed + (options.kernels or options.programs)):
            trouble = run(seed)
            if trouble:
                bad += 1
                print(trouble, flush=True)
    return bad


def main() -> int:
    """Run the command. Return the number of programs or kernels with a fault, but at most 100."""
    parser = argparse.ArgumentParser(prog="tests.fuzz")
    parser.add_argument("--programs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", type=int, default=0, help="random kernels, instead of array programs")
    parser.add_argument(
        "--device",
        default="cpu",
        help="where programs run: cpu, simt::backward, cuda:0, stand-in (CUDA on a driver that runs host code); others "
        "are compared with cpu",
    )
    parser.add_argument("--immediate", type=int, help="elements up to which operations run immediately")
    parser.add_argument("--large", action="store_true", help="programs of arrays of up to 100,000 elements")
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if options.child:
        faulthandler.enable()
        return run_here(options)
    bad = 0
    kind, total = ("kernels", options.kernels) if options.kernels else ("programs", options.programs)
    for seed in range(options.seed, options.seed + total, BATCH):
        count = min(BATCH, options.seed + total - seed)
        command = [sys.executable, "-m", "tests.fuzz", "--child", "--seed", str(seed), f"--{kind}", str(count)]
        command += ["--device", options.device, *(["--large"] if options.large else [])]
        command += [] if options.immediate is None else ["--immediate", str(options.immediate)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(done.stdout, end="", flush=True)
        if done.returncode < 0 or (done.returncode and not done.stdout):
            print(f"seeds {seed} to {seed + count - 1}: exit {done.returncode}\n{done.stderr[-2000:]}", flush=True)
            bad += 1
        bad += max(0, done.returncode)
    print(f"{total} {kind}, {bad} differ")
    return min(bad, 100)


if __name__ == "__main__":
    sys.exit(main())
