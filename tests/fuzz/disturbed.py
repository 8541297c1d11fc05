"""Random programs that are disturbed during their evaluation.

The disturbances are interrupts, lack of memory, and several threads.

``python -m tests.fuzz.disturbed --programs 100 --seed 0`` runs the programs. No disturbance may lose a recorded
operation, and the final values must be NumPy's.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import children
from tests.fuzz.graphs import Arrays, Generator, World
from tests.fuzz.programs import differences
from weft.runtime.cpu.host_launches import HostLaunches

TRIES = 200


def check(seed: int) -> str:
    """Run a random program with each kind of disturbance. Return a description of the first fault, or ""."""
    generator, pick = Generator(seed), random.Random(seed)
    sizes, data = pick.choice(generator.bindings)
    start = generator.start(sizes, data)
    world = World(start, sizes)
    for line in generator.world.lines:
        world.accept(line)
    wanted = {name: np.asarray(value) for name, value in world.values.items()}
    for way in (_interrupted, _stopped, _short_of_memory, _on_threads):
        try:
            trouble = way(world.lines, start, sizes, wanted, pick)
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
        if trouble:
            return "\n".join([f"seed {seed}{way.__name__} {sizes} data {data}: {trouble}", *world.lines])
    return ""


def _recorded(lines: list[str], start: Arrays, sizes: dict[str, int]) -> Arrays:
    """Execute the program's statements with weft, and return all arrays and scalars. Values that no statement has read are not computed yet."""
    values: Arrays = {"xp": wf, "see": np.asarray, "evaluate": lambda *a: None, **sizes}
    values.update({name: wf.asarray(value) for name, value in start.items()})
    for line in lines:
        exec(line, values)
    return {n: v for n, v in values.items() if isinstance(v, wf.Array | np.ndarray | np.generic)}


def _lazy(values: Arrays) -> list[wf.Array]:
    return [value for value in values.values() if isinstance(value, wf.Array)]


def _compared(values: Arrays, wanted: Arrays) -> str:
    return differences({name: np.array(value) for name, value in values.items()}, wanted, False)


def _interrupted(lines: list[str], start: Arrays, sizes: dict[str, int], wanted: Arrays, pick: random.Random) -> str:
    """Interrupt an evaluation and repeat it. Return a description of the first fault, or ""."""
    values = _recorded(lines, start, sizes)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for attempt in range(TRIES):
            try:
                signal.setitimer(signal.ITIMER_REAL, pick.choice((2e-5, 1e-4, 3e-4, 1e-3, 1e-2)) * (1 + attempt))
                wf.evaluate(*_lazy(values))
                signal.setitimer(signal.ITIMER_REAL, 0)
                break
            except KeyboardInterrupt:
                continue
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return _compared(values, wanted)


@contextmanager
def stops(pick: random.Random, often: float) -> Iterator[None]:
    """Within the ``with`` block, interrupt random calls that run kernels.

    `often` is the probability of an interrupt before a call, and of one after the call.
    """
    run = HostLaunches.run

    def stopped(self: HostLaunches, table: list[Any]) -> None:
        if pick.random() < often:
            raise KeyboardInterrupt
        run(self, table)
        if pick.random() < often:
            raise KeyboardInterrupt

    HostLaunches.run = stopped  # type: ignore[method-assign]
    try:
        yield
    finally:
        HostLaunches.run = run  # type: ignore[method-assign]


def _stopped(lines: list[str], start: Arrays, sizes: dict[str, int], wanted: Arrays, pick: random.Random) -> str:
    """Interrupt evaluations before or after their kernels. Return the first fault, or "".

    The kernels may overwrite operands. Further statements are recorded between the evaluations.
    """
    values: Arrays = {"xp": wf, "see": np.asarray, "evaluate": lambda *a: None, **sizes}
    values.update({name: wf.asarray(value).copy() for name, value in start.items()})
    wf.evaluate(*_lazy(values))
    for line in lines:
        exec(line, values)
        if pick.random() < 0.4:
            with stops(pick, 0.3), suppress(KeyboardInterrupt):
                wf.evaluate(*_lazy(values))
    found = {n: v for n, v in values.items() if isinstance(v, wf.Array | np.ndarray | np.generic)}
    return _compared(found, wanted)


def _short_of_memory(
    lines: list[str], start: Arrays, sizes: dict[str, int], wanted: Arrays, pick: random.Random
) -> str:
    """Evaluate the program under memory limits. Return the first fault, or "".

    The limits increase, and the last evaluation has none.
    """
    values = _recorded(lines, start, sizes)
    used = wf.memory.info().held
    failed = 0
    try:
        for room in sorted(pick.choice((0, 64, 1000, 20_000, 100_000)) for _ in range(3)):
            wf.memory.limit(used + room)
            try:
                wf.evaluate(*_lazy(values))
            except wf.OutOfMemoryError:
                failed += 1
    finally:
        wf.memory.limit(None)
    return _compared(values, wanted)


def _on_threads(lines: list[str], start: Arrays, sizes: dict[str, int], wanted: Arrays, pick: random.Random) -> str:
    """Run the program on three threads that share pending inputs. Return the first fault, or ""."""
    shared = {name: wf.asarray(value).reshape(-1).reshape(value.shape)[...] for name, value in start.items()}
    held = {name: wf.where(wf.asarray(True), value, value) for name, value in shared.items()}
    troubles: list[str] = []
    together = threading.Barrier(3)

    def work() -> None:
        try:
            values: Arrays = {"xp": wf, "see": np.asarray, "evaluate": _evaluate, **sizes}
            together.wait()
            values.update({name: value.copy() for name, value in held.items()})
            for line in lines:
                exec(line, values)
            found = {n: v for n, v in values.items() if isinstance(v, wf.Array | np.ndarray | np.generic)}
            troubles.append(_compared(found, wanted))
        except Exception as error:
            troubles.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return next((trouble for trouble in troubles if trouble), "")


def _evaluate(*values: Any) -> None:
    wf.evaluate(*(value for value in values if isinstance(value, wf.Array)))


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.disturbed"))
