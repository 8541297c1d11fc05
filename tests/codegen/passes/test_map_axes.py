"""Tests that kernels have the same results before and after they are mapped to GPU threads.

Both forms of a kernel are interpreted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.codegen import kernels
from tests.codegen.kernels import GPU, HOST, numbers
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Kernel, KernelBuilder, describe_shapes, print_kernel, verify_kernel
from weft.codegen.passes.expand_complex import expand_complex
from weft.codegen.passes.map_axes import map_axes
from weft.codegen.schedules.any_rows import AnyRows
from weft.codegen.schedules.rows import EachRow

LENGTHS = (0, 1, 3, 31, 32, 33, 255, 257, 1021, 1024, 1025, 3001)


def both(kernel: Kernel, inputs: list[Any], outputs: list[np.ndarray], *, exact: bool, grid: int = 2) -> Kernel:
    """Compare the outputs of a logical kernel and of its threaded form.

    The threads run in forward and in backward order. Return the threaded kernel.
    """
    verify_kernel(kernel)
    threaded = map_axes(kernel, GPU)
    verify_kernel(threaded)
    expected = [out.copy() for out in outputs]
    interpret_kernel(kernel, _arguments(kernel, inputs, expected))
    found = []
    for backwards in (False, True):
        mine = [out.copy() for out in outputs]
        arguments = _arguments(kernel, inputs, mine)
        if number := kernels.blocks(kernel, threaded, arguments, grid):
            interpret_kernel(threaded, arguments, grid=(number,), backwards=backwards)
        found.append(mine)
        for ours, theirs in zip(mine, expected, strict=True):
            if exact:
                assert ours.tobytes() == theirs.tobytes()
            else:
                scale = np.abs(theirs).max(initial=1)
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * scale)
    for first, second in zip(*found, strict=True):
        assert first.tobytes() == second.tobytes(), "the order of threads shows"
    return threaded


def _arguments(kernel: Kernel, inputs: list[Any], outputs: list[np.ndarray]) -> list[Any]:
    """Return arguments in the order of the parameters.

    Writable pointers are outputs, and the other parameters are inputs.
    """
    ours, theirs = iter(outputs), iter(inputs)
    return [next(ours) if p.writable else next(theirs) for p in kernel.parameters]


# -- elements ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", LENGTHS)
def test_line(length: int) -> None:
    x, y = numbers(length, "f4", 1), numbers(length, "f4", 2)
    threaded = both(kernels.line(), [x, y, length], [np.zeros(length, "f4")], exact=True)
    assert threaded.attributes["scheme"] == "elements"


@pytest.mark.parametrize(
    ("dtype", "lanes"), [("f4", 4), ("f8", 4), ("f2", 8), ("i1", 16), ("u2", 8), ("c8", 4), ("c16", 4), ("?", 16)]
)
def test_line_of_every_width(dtype: str, lanes: int) -> None:
    x, y = numbers(261, dtype, 1), numbers(261, dtype, 2)
    threaded = both(kernels.line(dtype), [x, y, 261], [np.zeros(261, dtype)], exact=True)
    assert vectors(threaded) == {"out", "x", "y"}
    assert threaded.attributes["per_block"] == 256 * lanes


def vectors(threaded: Kernel) -> set[str]:
    """Return the names of the pointers that threads access in vectors of 16 bytes."""
    arrays = {o.results[0]: o.operands[0].name for o in threaded.walk() if o.opcode == "offset"}
    return {arrays[o.operands[0]] for o in threaded.walk() if o.attributes.get("align") == 16}


@pytest.mark.parametrize("align", [1, 4, 8])
def test_no_vectors_without_alignment(align: int) -> None:
    threaded = map_axes(kernels.line(align=align), GPU)
    assert not vectors(threaded)


def test_alignment_holds_for_every_access_through_a_pointer() -> None:
    b = KernelBuilder("shifted")
    x = b.pointer("x", np.float32, noalias=True, align=64)
    y = b.pointer("y", np.float32, noalias=True, align=64)
    out = b.pointer("out", np.float32, writable=True, align=64)
    n = b.scalar("n")
    with b.loop(n, "parallel") as i:
        near, far = b.load(x, i.index), b.load(x, b.op("add", i.index, n))
        b.store(out, i.index, b.op("add", b.op("add", near, far), b.load(y, i.index)))
    kernel = b.finish()
    values, other = numbers(514, "f4", 1), numbers(257, "f4", 2)
    threaded = both(kernel, [values, other, 257], [np.zeros(257, "f4")], exact=True)
    assert vectors(threaded) == {"out", "y"}


def test_64_bit_indices() -> None:
    x = numbers(100, "f4")
    threaded = both(kernels.line(index=np.int64), [x, x, 100], [np.zeros(100, "f4")], exact=True)
    assert {o.results[0].type for o in threaded.walk() if o.opcode == "thread_index"} == {np.dtype(np.int64)}


@pytest.mark.parametrize("length", [1, 127, 600])
def test_strided(length: int) -> None:
    x = numbers(length * 3 + 1, "f4")
    threaded = both(kernels.strided(), [x, length, 3], [np.zeros(length, "f4")], exact=True)
    assert vectors(threaded) == {"out", "x"}  # x is also read with a stride, one element at a time


SHAPES = [
    (0, 3, 2),
    (2, 0, 3),
    (2, 3, 0),
    (1, 1, 1),
    (2, 3, 4),
    (7, 11, 5),
    (3, 1, 33),
    (1, 1, 1300),
    (300, 2, 1),
    (2, 2, 257),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("grid", [1, 5])
def test_space(shape: tuple[int, int, int], grid: int) -> None:
    a, b, c = shape
    x, row = numbers(a * b * c, "f4", 1), numbers(b, "f4", 2)
    both(kernels.space(), [x, row, a, b, c, b * c, c], [np.zeros(a * b * c, "f4")], exact=True, grid=grid)


@pytest.mark.parametrize(("a", "n"), [(1, 1), (3, 200), (200, 3), (40, 37)])
@pytest.mark.parametrize("dtype", ["f4", "i1"])
def test_transposed(a: int, n: int, dtype: str) -> None:
    x, y = numbers(a * n, dtype, 1), numbers(a * n, dtype, 2)
    both(kernels.transposed(dtype), [x, y, a, n], [np.zeros(a * n, dtype)], exact=True)


@pytest.mark.parametrize(("dtype", "along"), [("f4", 32), ("f8", 32), ("i2", 16), ("i1", 8)])
def test_tiles_of_transposed_operands_are_as_high_as_a_sector(dtype: str, along: int) -> None:
    def widest(kernel: Kernel) -> int:
        """Return the maximum number of threads that the kernel may use along a row."""
        threaded = map_axes(kernel, GPU)
        numbers = {o.results[0]: o.attributes["value"] for o in threaded.walk() if o.opcode == "constant"}
        chosen = [o for o in threaded.body.operations if o.opcode == "where" and o.operands[1] in numbers]
        return max(int(numbers[o.operands[1]]) for o in chosen)

    assert widest(kernels.transposed(dtype)) == along
    assert widest(kernels.space(dtype)) == 256


def test_space_divides_once_a_tile() -> None:
    threaded = map_axes(kernels.space(), GPU)
    depth_of = Counter[int]()
    stack = [(threaded.body, 0)]
    deepest = 0
    while stack:
        block, depth = stack.pop()
        for o in block.operations:
            depth_of[depth] += o.opcode == "_truncate_divide"
            if o.opcode == "store":
                deepest = max(deepest, depth)
            stack.extend((region, depth + (o.opcode == "for")) for region in o.regions)
    assert deepest == 2
    assert depth_of[0] > 0
    assert depth_of[1] > 0
    # the loop along the row only counts the remaining columns
    assert depth_of[2] == 0


# -- reductions -------------------------------------------------------------------------------------

TABLES = [(0, 5), (5, 0), (1, 1), (3, 7), (5, 33), (2, 300), (1, 1000), (1, 2500), (70, 3), (300, 2)]


@pytest.mark.parametrize(("count", "length"), TABLES)
def test_rows(count: int, length: int) -> None:
    x = numbers(count * length, "f4")
    threaded = both(kernels.rows(), [x, count, length], [np.zeros(count, "f4")], exact=False)
    assert threaded.attributes["scheme"] == "rows"


@pytest.mark.parametrize(("count", "length"), [(0, 5), (5, 0), (1, 1), (1, 500), (7, 3), (31, 40), (33, 20), (70, 9)])
def test_columns(count: int, length: int) -> None:
    x = numbers(count * length, "f8")
    threaded = both(kernels.columns("f8"), [x, count, length], [np.zeros(count)], exact=False)
    assert threaded.attributes["scheme"] == "columns"


EXACT_REDUCTIONS = [
    ("i4", ("add",)),
    ("i8", ("multiply",)),
    ("u1", ("bitwise_and",)),
    ("i2", ("bitwise_or", "bitwise_xor")),
    ("?", ("logical_and", "logical_or")),
    ("f4", ("minimum",)),
    ("f8", ("maximum", "argmax")),
    ("f4", ("argmin",)),
    ("i1", ("argmin", "maximum", "argmax")),
]


@pytest.mark.parametrize("make", [kernels.rows, kernels.columns])
@pytest.mark.parametrize(("dtype", "combine"), EXACT_REDUCTIONS)
def test_folds_that_do_not_round(make: Any, dtype: str, combine: tuple[str, ...]) -> None:
    # each reduction has one of two shapes for rows, and the other shape for columns
    short = (EXACT_REDUCTIONS.index((dtype, combine)) + (make is kernels.rows)) % 2
    count, length = (3, 41) if short else (2, 100)
    x = numbers(count * length, dtype)
    if dtype == "f8":
        x[length // 2 :: 7] = np.nan
    kernel = make(dtype, combine)
    outputs = [np.zeros(count, p.value.type.dtype) for p in kernel.parameters if p.writable]  # type: ignore[union-attr]
    both(kernel, [x, count, length], outputs, exact=True)


@pytest.mark.parametrize("combine", [("add",), ("multiply",)])
def test_complex_folds_survive_their_expansion(combine: tuple[str, ...]) -> None:
    x = numbers(3 * 40, "c16")
    kernel = kernels.rows("c16", combine)
    expected = np.zeros(3, "c16")
    interpret_kernel(kernel, [x, 3, 40, expected])
    expanded = expand_complex(map_axes(kernel, GPU))
    verify_kernel(expanded)
    found = np.zeros(3, "c16")
    interpret_kernel(expanded, [x.view("f8"), 3, 40, found.view("f8")], grid=(2,))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_a_fold_starts_from_counts_once() -> None:
    x = numbers(3 * 50, "i4")
    both(kernels.rows("i4", start=1000), [x, 3, 50], [np.zeros(3, "i4")], exact=True)


def test_sum_of_negative_zeros() -> None:
    x = np.full(2 * 50, -0.0, "f4")
    both(kernels.rows("f4"), [x, 2, 50], [np.zeros(2, "f4")], exact=True)
    both(kernels.rows("f4"), [x, 2, 0], [np.ones(2, "f4")], exact=True)


@pytest.mark.parametrize(("a", "m", "n"), [(2, 3, 4), (3, 1, 33), (7, 11, 5), (300, 2, 1), (0, 3, 2), (1, 20, 40)])
def test_nested_folds(a: int, m: int, n: int) -> None:
    x = numbers(a * m * n, "f8")
    both(kernels.deep_fold(), [x, a, m, n], [np.zeros(n), np.zeros(n, np.int64)], exact=False)


@pytest.mark.parametrize("length", [0, 1, 45, 1000])
def test_fold_without_a_parallel_loop_and_with_stores(length: int) -> None:
    both(kernels.whole(), [length], [numbers(length, "f4"), np.zeros(1, "f4")], exact=False)


@pytest.mark.parametrize(("count", "length"), [(1, 1), (5, 20), (3, 300), (40, 33)])
def test_several_loops_over_a_row(count: int, length: int) -> None:
    x = numbers(count * length, "f8") + 3
    both(kernels.centred(), [x, count, length], [np.zeros(count * length)], exact=False)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("double", "mirror"),  # reads elements that other threads have written
        ("mirror", "double"),  # writes elements that other threads read before
        ("head", "none"),  # overwrites an element that all threads read first
        ("fill", "mirror"),  # reads an element that the first thread has written
        ("mirror", "fill"),
        ("double", "head"),
    ],
)
@pytest.mark.parametrize("length", [1, pytest.param(100, marks=pytest.mark.slow), 300])
def test_threads_wait_for_each_other(first: str, second: str, length: int) -> None:
    x = numbers(3 * length, "i4")
    both(
        kernels.two_loops(first, second),
        [3, length],
        [x, np.zeros(3 * length, "i4"), np.zeros(3, "i4")],
        exact=True,
    )


@pytest.mark.parametrize(("first", "second"), [("double", "mirror"), ("mirror", "double"), ("double", "head")])
@pytest.mark.parametrize(("length", "threads"), [(70, 32), (1030, 256), (40, 0), (70, 0), (1030, 0)])
def test_threads_of_a_row_wait_for_each_other(first: str, second: str, length: int, threads: int) -> None:
    exact = threads > 0  # otherwise the launch determines the number of threads
    kernel = describe_shapes(kernels.two_loops(first, second), {"count": 1, "length": length}, GPU, exact=exact)
    assert isinstance(found := kernel.attributes["schedule"], EachRow if exact else AnyRows)
    assert not exact or found.threads == threads
    x = numbers(length, "i4")
    both(kernel, [1, length], [x, np.zeros(length, "i4"), np.zeros(1, "i4")], exact=True)


@pytest.mark.parametrize(("count", "length"), [(5, 30), (100, 20)])
def test_columns_that_all_threads_go_on_with(count: int, length: int) -> None:
    x = numbers(count * length, "f8")
    # one block, which reuses its shared memory for the next columns
    threaded = both(kernels.centred_columns(), [x, count, length], [np.zeros_like(x)], exact=False, grid=1)
    assert threaded.attributes["scheme"] == "columns"


def test_the_tree_does_not_depend_on_the_grid() -> None:
    x = numbers(5 * 133, "f4")
    threaded = map_axes(kernels.rows(), GPU)
    found = []
    for grid in (1, 2, 5):
        out = np.zeros(5, "f4")
        interpret_kernel(threaded, [x, 5, 133, out], grid=(grid,))
        found.append(out.tobytes())
    assert len(set(found)) == 1


# -- scans, and rejected kernels ----------------------------------------------------------------------


@pytest.mark.parametrize(("count", "length"), [(0, 3), (1, 5), (200, 3), (3, 0)])
def test_scan(count: int, length: int) -> None:
    x = numbers(count * length, "f4")
    threaded = both(kernels.scan(), [x, count, length], [np.zeros(count * length, "f4")], exact=True)
    assert threaded.attributes["scheme"] == "items"


def test_refuses_hosts_and_threaded_kernels() -> None:
    with pytest.raises(ValueError, match="not logical ones for host"):
        map_axes(kernels.line(), HOST)
    with pytest.raises(ValueError, match="not threaded ones for sm_90"):
        map_axes(map_axes(kernels.line(), GPU), GPU)


def test_leaves_its_input_alone() -> None:
    for kernel in (kernels.line(), kernels.space(), kernels.deep_fold(), kernels.centred(), kernels.scan()):
        before = print_kernel(kernel)
        first = print_kernel(map_axes(kernel, GPU))
        assert print_kernel(kernel) == before
        assert print_kernel(map_axes(kernel, GPU)) == first
