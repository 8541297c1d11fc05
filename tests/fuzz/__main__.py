"""``python -m tests.fuzz --programs 3000 --kernels 1000 --seed 0``: random programs in child processes; what differs."""

from __future__ import annotations

import argparse
import faulthandler
import subprocess
import sys

CHUNK = 100


def main() -> int:
    """Number of programs that differ."""
    parser = argparse.ArgumentParser(prog="tests.fuzz")
    parser.add_argument("--programs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", type=int, default=0, help="random kernels, instead of array programs")
    parser.add_argument(
        "--device", default="cpu", help="where programs run: cpu, simt, cuda:0; simt is compared with cpu"
    )
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if options.child:
        faulthandler.enable()
        from tests.fuzz.kernels import check_kernel
        from tests.fuzz.programs import check

        run = check_kernel if options.kernels else check
        bad = 0
        for seed in range(options.seed, options.seed + (options.kernels or options.programs)):
            trouble = run(seed)
            if trouble:
                bad += 1
                print(trouble, flush=True)
        return bad
    bad = 0
    kind, total = ("kernels", options.kernels) if options.kernels else ("programs", options.programs)
    for seed in range(options.seed, options.seed + total, CHUNK):
        count = min(CHUNK, options.seed + total - seed)
        command = [sys.executable, "-m", "tests.fuzz", "--child", "--seed", str(seed), f"--{kind}", str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(done.stdout, end="", flush=True)
        if done.returncode < 0:
            print(f"seeds {seed} to {seed + count - 1}: exit {done.returncode}\n{done.stderr[-2000:]}", flush=True)
            bad += 1
        bad += max(0, done.returncode)
    print(f"{total} {kind}, {bad} differ")
    return min(bad, 100)


if __name__ == "__main__":
    sys.exit(main())
