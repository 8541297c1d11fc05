"""Tests of a sample of the random kernels.

``python -m tests.fuzz --kernels 1000`` runs many more kernels.
"""

from __future__ import annotations

import pytest

from tests.fuzz.kernels import Generator, check_kernel


@pytest.mark.parametrize("seed", range(0, 10, 2))
def test_random_kernels(seed: int) -> None:
    for k in range(seed, seed + 2):
        assert check_kernel(k) == ""


def test_the_sample_holds_what_it_should() -> None:
    """Test that 120 random kernels contain the main constructs of the grammar."""
    text = "".join(Generator(seed).source() for seed in range(120))
    for word in (
        "shfl_up_sync",
        "ballot_sync",
        "block_fold(s",
        "while ",
        "continue",
        "match t",
        "local.array",
        "syncthreads_or",
        "match_any_sync",
        "reduce_xor_sync",
        ": return",
        "np.where",
        "cuda.atomic.add(c",
        "cuda.atomic.xor(s",
        "cuda.gridsize(1)",
        "cuda.gridsize(2)",
        "if t // 32 == 1",
    ):
        assert word in text, word
