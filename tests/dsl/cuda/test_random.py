"""Tests of random numbers in kernels and on the host.

Seeds, jumps and values are compared with computations on Python integers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft import cuda
from weft.dsl.cuda import random
from weft.dsl.cuda.random import xoroshiro128p_dtype
from weft.dsl.kernel.launch.dispatcher import kernel

MASK = 2**64 - 1
JUMP = (0xBEAC0467EBA5FACB, 0xD86B048B86AA9922)

State = tuple[int, int]


def rotated(x: int, k: int) -> int:
    return ((x << k) | (x >> (64 - k))) & MASK


def step(state: State) -> tuple[int, State]:
    """Return the next number and the next state of xoroshiro128+ (the version of 2016)."""
    s0, s1 = state
    mixed = s0 ^ s1
    return (s0 + s1) & MASK, (rotated(s0, 55) ^ mixed ^ ((mixed << 14) & MASK), rotated(mixed, 36))


def jumped(state: State) -> State:
    total = [0, 0]
    for word in JUMP:
        for bit in range(64):
            if word >> bit & 1:
                total = [total[0] ^ state[0], total[1] ^ state[1]]
            state = step(state)[1]
    return total[0], total[1]


def seeded(seed: int) -> State:
    """Return a state of two equal words. Each word is the first output of the generator splitmix64 with the seed `seed`."""
    z = (seed + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return (z ^ (z >> 31),) * 2


def states(count: int, seed: int, start: int = 0) -> list[State]:
    state = seeded(seed & MASK)
    for _ in range(start):
        state = jumped(state)
    found = [state]
    while len(found) < count:
        found.append(jumped(found[-1]))
    return found


def test_splitmix64_gives_its_published_numbers() -> None:
    # the first number of the reference program for the seed 1234567
    assert seeded(1234567)[0] == 6457827717110365317


@pytest.mark.parametrize(("count", "seed", "start"), [(1, 0, 0), (2, 1, 0), (37, 42, 3), (8, -1, 1), (5, 2**64 + 7, 0)])
def test_states_are_jumps_apart(count: int, seed: int, start: int) -> None:
    made = random.create_xoroshiro128p_states(count, seed=seed, subsequence_start=start).copy_to_host()
    assert made.dtype == xoroshiro128p_dtype
    assert made.tolist() == states(count, seed, start)


def test_a_far_subsequence_is_reached_by_squaring() -> None:
    near, far = (np.empty(n, xoroshiro128p_dtype) for n in (301, 1))
    random.init_xoroshiro128p_states(near, 5)
    random.init_xoroshiro128p_states(far, 5, subsequence_start=300)
    assert far[0] == near[300]
    random.init_xoroshiro128p_states(far, 5, subsequence_start=2**63)  # a huge start must not take forever


def test_no_states() -> None:
    random.init_xoroshiro128p_states(np.empty(0, xoroshiro128p_dtype), 1)


def test_wrong_states() -> None:
    with pytest.raises(TypeError, match="xoroshiro128p_dtype"):
        random.init_xoroshiro128p_states(np.empty(3), 1)
    with pytest.raises(ValueError, match="one axis"):
        random.init_xoroshiro128p_states(np.empty((2, 2), xoroshiro128p_dtype), 1)
    with pytest.raises(ValueError, match="not negative"):
        random.init_xoroshiro128p_states(np.empty(2, xoroshiro128p_dtype), 1, subsequence_start=-1)


@kernel
def draw(generators, integers, singles, doubles):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < generators.size:
        for k in range(integers.shape[1]):
            integers[i, k] = random.xoroshiro128p_next(generators, i)
        for k in range(singles.shape[1]):
            singles[i, k] = random.xoroshiro128p_uniform_float32(generators, i)
            doubles[i, k] = random.xoroshiro128p_uniform_float64(generators, i)


def test_numbers_in_a_kernel_are_the_integers_ones() -> None:
    count = 70
    generators = cuda.random.create_xoroshiro128p_states(count, seed=9)
    integers, singles, doubles = np.zeros((count, 5), np.uint64), np.zeros((count, 4), np.float32), np.zeros((count, 4))
    draw[3, 32](generators, integers, singles, doubles)
    after = generators.copy_to_host().tolist()
    for i, state in enumerate(states(count, 9)):
        for k in range(5):
            number, state = step(state)
            assert integers[i, k] == number
        for k in range(4):
            number, state = step(state)
            assert singles[i, k] == np.float32((number >> 11) * 2.0**-53)
            number, state = step(state)
            assert doubles[i, k] == (number >> 11) * 2.0**-53
        assert after[i] == state


@kernel
def draw_normal(generators, singles, doubles):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < generators.size:
        random.xoroshiro128p_jump(generators, i)
        for k in range(singles.shape[1]):
            singles[i, k] = random.xoroshiro128p_normal_float32(generators, i)
            doubles[i, k] = random.xoroshiro128p_normal_float64(generators, i)


def test_normal_numbers_follow_from_uniform_ones() -> None:
    count, each = 64, 200
    generators = random.create_xoroshiro128p_states(count, seed=11)
    singles, doubles = np.zeros((count, each), np.float32), np.zeros((count, each))
    draw_normal[2, 32](generators, singles, doubles)
    state = jumped(states(1, 11)[0])
    for k in range(each):
        pairs = []
        for _ in range(4):
            number, state = step(state)
            pairs.append((number >> 11) * 2.0**-53)
        for found, (u, v) in ((singles[0, k], pairs[:2]), (doubles[0, k], pairs[2:])):
            wanted = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
            assert found == pytest.approx(wanted, rel=1e-5 if found.dtype == np.float32 else 1e-13, abs=1e-6)
    for values in (singles.astype(float), doubles):
        assert abs(values.mean()) < 5 / math.sqrt(values.size) and abs(values.var() - 1) < 10 / math.sqrt(values.size)


def test_state_is_set_in_a_kernel() -> None:
    @kernel
    def seed_all(generators, seed):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < generators.size:
            random.init_xoroshiro128p_state(generators, i, seed + i)

    made = cuda.device_array(6, xoroshiro128p_dtype)
    seed_all[1, 8](made, np.uint64(100))
    assert made.copy_to_host().tolist() == [seeded(100 + i) for i in range(6)]
