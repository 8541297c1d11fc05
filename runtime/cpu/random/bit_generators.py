"""Algorithms of NumPy's bit generators, with jumps over any number of steps.

In: a generator of NumPy. Out: its state and its increment (of Philox: its key) as integers, the state after a
number of steps, and the generator with a new state. Invariant: each output is a function of the state after a step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.llvm_files import read_llvm
from weft.runtime.uninterruptible import uninterruptible

# The compiled modules of numpy.random swallow an interrupt during their import, or turn it into an ImportError.
uninterruptible(lambda: import_module("numpy.random"), "numpy.random")

_MASK, _WORD = (1 << 128) - 1, (1 << 64) - 1
# Steps of a block that native code computes at once, and number of steps in one vector.
BLOCK, LANES = 1 << 10, 8


class State(NamedTuple):
    """The state of a bit generator.

    `half` tells whether half of the last output is unused (1 or 0), and contains this half. These are NumPy's
    `has_uint32` and `uinteger`.
    """

    state: int
    increment: int
    half: tuple[int, int]


class Congruential:
    """A linear congruential generator with a 128-bit state, such as PCG64.

    Parameters
    ----------
    kind : type
    multiplier : int
    before : bool
        Whether NumPy takes an output before the step. `State.state` is then NumPy's state of one step earlier.
    text, texts : str
        The LLVM text of the output function, for one state and for several states.
    output : callable
        The output function of the low and the high word of a state.
    """

    def __init__(
        self, kind: type[Any], multiplier: int, before: bool, text: str, texts: str, output: Callable[[int, int], int]
    ) -> None:
        self.kind = kind
        self.multiplier = multiplier
        self.before = before
        self._texts = {"OUTPUT": text, "OUTPUTS": texts}
        self._output = output
        self._inverse = pow(multiplier, -1, 1 << 128)

    def text(self) -> str:
        """Return the LLVM text of this bit generator's algorithm."""
        return read_llvm(
            __file__, "congruential", MULTIPLIER=self.multiplier, LANES=LANES, DISTANCES=BLOCK + LANES, **self._texts
        )

    @cached_property
    def distances(self) -> np.ndarray:
        """The table with which native code skips steps of the generator.

        It contains the sums 1 + a + ... + a**(n - 1) for n = 1, 2, ..., where a is the multiplier, as a row of low and
        a row of high words.
        """
        words = np.empty((2, BLOCK + LANES), np.uint64)
        distance = 0
        for n in range(BLOCK + LANES):
            distance = (distance * self.multiplier + 1) & _MASK
            words[:, n] = distance & _WORD, distance >> 64
        return words

    @cached_property
    def _is_known(self) -> bool:
        return _has_known_layout(self.kind)

    def load(self, generator: np.random.BitGenerator) -> State | None:
        """Return the state of a NumPy generator, or None if native code does not support its state."""
        if not self._is_known:
            return None
        numbers = ctypes.string_at(_state_address(generator), 32)
        state, increment = (int.from_bytes(part, "little") for part in (numbers[:16], numbers[16:]))
        if self.before:
            state = (state - increment) * self._inverse & _MASK
        has, half = _half_of(generator)
        return State(state, increment, (has, half))

    def store(self, generator: np.random.BitGenerator, state: State) -> None:
        """Set the state of a NumPy generator."""
        number = self.jump(state.state, state.increment, 1) if self.before else state.state
        numbers = number.to_bytes(16, "little") + state.increment.to_bytes(16, "little")
        ctypes.memmove(_state_address(generator), numbers, 32)
        _half_of(generator)[:] = state.half

    def jump(self, state: int, increment: int, steps: int) -> int:
        """Return the state of the generator after `steps` more steps.

        The method is from Brown 1994, "Random number generation with arbitrary strides".
        """
        product, total, factor, term = 1, 0, self.multiplier, increment
        while steps:
            if steps & 1:
                product, total = product * factor & _MASK, (total * factor + term) & _MASK
            factor, term, steps = factor * factor & _MASK, (factor + 1) * term & _MASK, steps >> 1
        return (product * state + total) & _MASK

    def output(self, state: int, increment: int) -> int:
        """Return the 64-bit output that the generator gives in the state `state`."""
        return self._output(state & _WORD, state >> 64)


def _state_address(generator: Any) -> int:
    """Return the address of the 128-bit state of a congruential generator. The increment follows the state."""
    return ctypes.c_int64.from_address(generator.ctypes.state_address).value


def _half_of(generator: Any) -> Any:
    """Return a writable view of `has_uint32` and `uinteger` in a generator's state."""
    address = generator.ctypes.state_address + ctypes.sizeof(ctypes.c_void_p)
    return (ctypes.c_uint32 * 2).from_address(address)


def _has_known_layout(kind: type[Any]) -> bool:
    """Return whether a generator's state has the layout in memory that this module expects."""
    generator = kind(1)
    state, increment = (generator.state["state"][key] for key in ("state", "inc"))
    expected: bytes = state.to_bytes(16, "little") + increment.to_bytes(16, "little")
    same = ctypes.string_at(_state_address(generator), 32) == expected
    np.random.Generator(generator).integers(9, dtype=np.int32)
    half = generator.state["has_uint32"], generator.state["uinteger"]
    return same and (*_half_of(generator),) == half


class Philox:
    """The Philox4x64-10 algorithm.

    The state is the position of the last output: four times the counter, plus the index of the output (0 to 3).
    """

    kind: type[Any] = np.random.Philox
    distances = np.zeros(1, np.uint64)  # (native code skips steps without a table)
    rounds = 10
    factors = 0xD2E7470EE14C6C93, 0xCA5A826395121157
    weyl = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B

    def text(self) -> str:
        first, second = self.weyl
        numbers = {"FIRST": self.factors[0], "SECOND": self.factors[1], "FIRST_WEYL": first, "SECOND_WEYL": second}
        return read_llvm(__file__, "philox", ROUNDS=self.rounds, BLOCK=BLOCK, ROOM=BLOCK + LANES, **numbers)

    def load(self, generator: Any) -> State | None:
        found = generator.state
        key, counter = found["state"]["key"].tolist(), found["state"]["counter"].tolist()
        position, increment = found["buffer_pos"], key[1] << 64 | key[0]
        count = counter[1] << 64 | counter[0]
        if counter[2] or counter[3] or counter[1] >> 60:
            return None
        if position < 4 and found["buffer"].tolist() != self.outputs(count, increment):
            return None  # (the program has set the buffer itself)
        return State(4 * count + position - 1, increment, (found["has_uint32"], found["uinteger"]))

    def store(self, generator: Any, state: State) -> None:
        counter, index = divmod(state.state, 4)
        words = [counter & _WORD, counter >> 64, 0, 0]
        key = [state.increment & _WORD, state.increment >> 64]
        generator.state = {
            "bit_generator": "Philox",
            "state": {"counter": np.array(words, np.uint64), "key": np.array(key, np.uint64)},
            "buffer": np.array(self.outputs(counter, state.increment), np.uint64),
            "buffer_pos": index + 1,
            "has_uint32": state.half[0],
            "uinteger": state.half[1],
        }

    def jump(self, state: int, increment: int, steps: int) -> int:
        return state + steps

    def output(self, state: int, increment: int) -> int:
        return self.outputs(state >> 2, increment)[state & 3]

    def outputs(self, counter: int, key: int) -> list[int]:
        """Return the four 64-bit outputs of Philox for a value of the counter."""
        a, b, c, d = counter & _WORD, counter >> 64, 0, 0
        x, y = key & _WORD, key >> 64
        for _ in range(self.rounds):
            first, second = a * self.factors[0], c * self.factors[1]
            a, b, c, d = second >> 64 ^ b ^ x, second & _WORD, first >> 64 ^ d ^ y, first & _WORD
            x, y = (x + self.weyl[0]) & _WORD, (y + self.weyl[1]) & _WORD
        return [a, b, c, d]


_PCG64 = """
  %both = xor i64 %high, %low
  %top = lshr i128 %state, 122
  %turns = trunc i128 %top to i64
  %bits = call i64 @llvm.fshr.i64(i64 %both, i64 %both, i64 %turns)"""
_PCG64_VECTOR = f"""
  %both = xor <{LANES} x i64> %there.high, %there.low
  %turns = lshr <{LANES} x i64> %there.high, splat (i64 58)
  %bits = call <{LANES} x i64> @llvm.fshr.v{LANES}i64(<{LANES} x i64> %both, <{LANES} x i64> %both, <{LANES} x i64> %turns)"""
_CHEAP = 0xDA942042E4DD58B5


def _dxsm(kind: str, high: str, low: str, number: str) -> str:
    return f"""
  %shifted = lshr {kind} {high}, {number.format(32)}
  %folded = xor {kind} {high}, %shifted
  %multiplied = mul {kind} %folded, {number.format(_CHEAP)}
  %shifted.more = lshr {kind} %multiplied, {number.format(48)}
  %folded.more = xor {kind} %multiplied, %shifted.more
  %odd = or {kind} {low}, {number.format(1)}
  %bits = mul {kind} %folded.more, %odd"""


def _pcg64_output(low: int, high: int) -> int:
    bits, turns = low ^ high, high >> 58
    return (bits >> turns | bits << (64 - turns)) & _WORD


def _dxsm_output(low: int, high: int) -> int:
    folded = (high ^ high >> 32) * _CHEAP & _WORD
    return (folded ^ folded >> 48) * (low | 1) & _WORD


Engine = Congruential | Philox


@cache
def engines() -> tuple[Engine, ...]:
    """Return the bit generator algorithms that native code supports. Streams refer to them by index."""
    vector = f"<{LANES} x i64>"
    return (
        Congruential(np.random.PCG64, 0x2360ED051FC65DA44385DF649FCCF645, False, _PCG64, _PCG64_VECTOR, _pcg64_output),
        Congruential(
            np.random.PCG64DXSM,
            _CHEAP,
            True,
            _dxsm("i64", "%high", "%low", "{}"),
            _dxsm(vector, "%there.high", "%there.low", "splat (i64 {})"),
            _dxsm_output,
        ),
        Philox(),
    )


def engine_of(generator: np.random.BitGenerator) -> tuple[int, Engine] | None:
    """Return the index and the item of `engines` for a NumPy bit generator, or None."""
    return next(((k, engine) for k, engine in enumerate(engines()) if type(generator) is engine.kind), None)


def generator_at(engine: Engine, state: State) -> Any:
    """Return a new NumPy bit generator in a given state."""
    made = engine.kind(0)
    engine.store(made, state)
    return made
