"""Logical kernels for tests of code generation, and arguments for the kernels.

Logical kernels are not mapped to threads yet.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.codegen import Kernel, KernelBuilder, Target, combine_accumulators
from weft.codegen.passes.reduction_identities import reduction_identities
from weft.codegen.schedules.nest import find_nest

GPU = Target("sm_90", "cuda", "nvptx64-nvidia-cuda", "sm_90")
HOST = Target("host", "cpu", "x86_64-unknown-linux-gnu", "", "", 32, 2)


def blocks(kernel: Kernel, threaded: Kernel, arguments: list[Any], most: int) -> int:
    """Return the number of blocks with which a GPU runs `threaded`, the kernel that the compiler made from the loops of
    `kernel`.

    If `threaded` has a grid-stride loop, the number is at most `most`.
    """
    names = [p.value.name for p in kernel.parameters]
    extents = [int(arguments[names.index(level.extent.name)]) for level in find_nest(kernel).levels]
    wanted = -(-prod(extents) // threaded.attributes["per_block"])
    return min(wanted, most) if threaded.attributes["most_blocks"] else wanted


def line(dtype: Any = np.float32, *, align: int = 16, index: Any = np.int32) -> Kernel:
    """Return the kernel out[i] = x[i] * y[i] + x[i]."""
    b = KernelBuilder("line", index)
    x = b.pointer("x", dtype, noalias=True, align=align)
    y = b.pointer("y", dtype, noalias=True, align=align)
    out = b.pointer("out", dtype, writable=True, align=align)
    n = b.scalar("n")
    with b.loop(n, "parallel") as i:
        left = b.load(x, i.index)
        b.store(out, i.index, b.op("add", b.op("multiply", left, b.load(y, i.index)), left))
    return b.finish()


def strided(dtype: Any = np.float32) -> Kernel:
    """Return the kernel out[i] = x[i * step] - x[i]."""
    b = KernelBuilder("strided")
    x = b.pointer("x", dtype, align=16)
    out = b.pointer("out", dtype, writable=True, align=16)
    n, step = b.scalar("n"), b.scalar("step")
    with b.loop(n, "parallel") as i:
        far = b.load(x, b.op("multiply", i.index, step))
        b.store(out, i.index, b.op("subtract", far, b.load(x, i.index)))
    return b.finish()


def space(dtype: Any = np.float32) -> Kernel:
    """Return the kernel out[i, j, k] = x[i, j, k] * row[j], as three loops that cannot be merged."""
    b = KernelBuilder("space")
    x = b.pointer("x", dtype)
    row = b.pointer("row", dtype)
    out = b.pointer("out", dtype, writable=True)
    extents = [b.scalar(name) for name in ("a", "b", "c")]
    strides = [b.scalar(name) for name in ("s", "t")]
    with b.loop(extents[0], "parallel") as i:
        first = b.op("multiply", i.index, strides[0])
        with b.loop(extents[1], "parallel") as j:
            second = b.op("add", first, b.op("multiply", j.index, strides[1]))
            factor = b.load(row, j.index)
            with b.loop(extents[2], "parallel") as k:
                at = b.op("add", second, k.index)
                b.store(out, at, b.op("multiply", b.load(x, at), factor))
    return b.finish()


def transposed(dtype: Any = np.float32) -> Kernel:
    """Return the kernel out[i, j] = x[i, j] + y[j, i]."""
    b = KernelBuilder("transposed")
    x = b.pointer("x", dtype, align=16)
    y = b.pointer("y", dtype, align=16)
    out = b.pointer("out", dtype, writable=True, align=16)
    a, n = b.scalar("a"), b.scalar("n")
    with b.loop(a, "parallel") as i:
        base = b.op("multiply", i.index, n)
        with b.loop(n, "parallel") as j:
            at = b.op("add", base, j.index)
            other = b.load(y, b.op("add", b.op("multiply", j.index, a), i.index))
            b.store(out, at, b.op("add", b.load(x, at), other))
    return b.finish()


def rows(dtype: Any = np.float32, combine: tuple[str, ...] = ("add",), start: Any = None) -> Kernel:
    """Return a kernel that computes one or more reductions of each row of a matrix. The tuple `combine` contains their names, such as "add".

    `start` is the initial value of the first reduction.
    """
    return _folds("rows", dtype, combine, side_by_side=True, start=start)


def columns(dtype: Any = np.float32, combine: tuple[str, ...] = ("add",)) -> Kernel:
    """Return a kernel that reduces each column ``x[:, i]``. `combine` names the reductions, such as "add" and "argmin"."""
    return _folds("columns", dtype, combine, side_by_side=False)


def _folds(name: str, dtype: Any, combine: tuple[str, ...], *, side_by_side: bool, start: Any = None) -> Kernel:
    dtype = np.dtype(dtype)
    b = KernelBuilder(name)
    x = b.pointer("x", dtype)
    count, length = b.scalar("count"), b.scalar("length")
    types = [t for fold_name in combine for t in ([dtype, np.dtype(np.int64)] if fold_name[:3] == "arg" else [dtype])]
    outs = [b.pointer(f"out{k}", t, writable=True) for k, t in enumerate(types)]
    with b.loop(count, "parallel") as i:
        initial = [b.constant(v, t) for v, t in zip(reduction_identities(combine, types), types, strict=True)]
        if start is not None:
            initial[0] = b.constant(start, dtype)
        base = b.op("multiply", i.index, length) if side_by_side else i.index
        across = {} if side_by_side else {"across": True}
        with b.loop(length, "reduce", initial=initial, combine=combine, **across) as j:
            step = j.index if side_by_side else b.op("multiply", j.index, count)
            value = b.load(x, b.op("add", base, step))
            following: list[Any] = []
            for fold_name in combine:
                width = 2 if fold_name[:3] == "arg" else 1
                new = (value, b.cast(j.index, np.int64))[:width]
                following += combine_accumulators(b, fold_name, j.carried[len(following) : len(following) + width], new)
            j.yield_(*following)
        for out, value in zip(outs, j.results, strict=True):
            b.store(out, i.index, value)
    return b.finish()


def deep_fold(dtype: Any = np.float64) -> Kernel:
    """Return a kernel with two results for each i: the sum of ``x[:, :, i]``, and the flat index of the smallest element in ``x[:, :, i]``."""
    b = KernelBuilder("deep")
    x = b.pointer("x", dtype)
    total = b.pointer("total", dtype, writable=True)
    position = b.pointer("position", np.int64, writable=True)
    a, m, n = b.scalar("a"), b.scalar("m"), b.scalar("n")
    combine = ("add", "argmin")
    with b.loop(n, "parallel") as i:
        types = [np.dtype(dtype), np.dtype(dtype), np.dtype(np.int64)]
        initial = [b.constant(v, t) for v, t in zip(reduction_identities(combine, types), types, strict=True)]
        with b.loop(a, "reduce", initial=initial, combine=combine) as j:
            first = b.op("multiply", j.index, m)
            with b.loop(m, "reduce", initial=j.carried, combine=combine) as k:
                at = b.op("add", first, k.index)
                value = b.load(x, b.op("add", b.op("multiply", at, n), i.index))
                best = combine_accumulators(b, "argmin", k.carried[1:], (value, b.cast(at, np.int64)))
                k.yield_(b.op("add", k.carried[0], value), *best)
            j.yield_(*k.results)
        b.store(total, i.index, j.results[0])
        b.store(position, i.index, j.results[2])
    return b.finish()


def whole(dtype: Any = np.float32) -> Kernel:
    """Return a kernel that doubles x in place, and computes the sum of the old elements."""
    b = KernelBuilder("whole")
    x = b.pointer("x", dtype, writable=True)
    out = b.pointer("out", dtype, writable=True)
    n = b.scalar("n")
    with b.loop(n, "reduce", initial=[b.constant(-0.0, dtype)], combine=("add",)) as i:
        value = b.load(x, i.index)
        b.store(x, i.index, b.op("add", value, value))
        i.yield_(b.op("add", i.carried[0], value))
    b.store(out, b.constant(0), i.results[0])
    return b.finish()


def centred(dtype: Any = np.float64) -> Kernel:
    """Return a kernel for out[i] = d / sum(d * d), where d = x[i] - sum(x[i]). It centres each row, but with the sum in place of the mean.

    Each row has two reductions, the second of which depends on the first, and then a loop that writes the row.
    """
    b = KernelBuilder("centred")
    x = b.pointer("x", dtype)
    out = b.pointer("out", dtype, writable=True)
    count, length = b.scalar("count"), b.scalar("length")
    with b.loop(count, "parallel") as i:
        base = b.op("multiply", i.index, length)
        with b.loop(length, "reduce", initial=[b.constant(-0.0, dtype)], combine=("add",)) as j:
            j.yield_(b.op("add", j.carried[0], b.load(x, b.op("add", base, j.index))))
        mean = j.results[0]
        with b.loop(length, "reduce", initial=[b.constant(-0.0, dtype)], combine=("add",)) as k:
            off = b.op("subtract", b.load(x, b.op("add", base, k.index)), mean)
            k.yield_(b.op("add", k.carried[0], b.op("multiply", off, off)))
        with b.loop(length, "reduce") as m:
            at = b.op("add", base, m.index)
            off = b.op("subtract", b.load(x, at), mean)
            b.store(out, at, b.op("divide", off, k.results[0]))
    return b.finish()


def two_loops(first: str, second: str) -> Kernel:
    """Return a kernel with two loops over each row and no reductions.

    `first` and `second` name the bodies of the loops. mirror: out[i, j] = x[i, -1 - j]; double: x[i, j] += x[i, j];
    head: x[i, j] -= x[i, 0]; fill: out[i, j] = total[i] after total[i] = x[i, 0]; none: no loop.
    """
    b = KernelBuilder("two_loops")
    x = b.pointer("x", np.int32, writable=True)
    out = b.pointer("out", np.int32, writable=True)
    total = b.pointer("total", np.int32, writable=True)
    count, length = b.scalar("count"), b.scalar("length")
    with b.loop(count, "parallel") as i:
        base = b.op("multiply", i.index, length)
        last = b.op("subtract", length, b.constant(1))
        for what in (first, second):
            if what == "none":
                continue
            if what in ("head", "fill"):
                leader = b.load(x, base)
            if what == "fill":
                b.store(total, i.index, leader)
            with b.loop(length, "reduce") as j:
                at = b.op("add", base, j.index)
                if what == "mirror":
                    b.store(out, at, b.load(x, b.op("add", base, b.op("subtract", last, j.index))))
                elif what == "double":
                    value = b.load(x, at)
                    b.store(x, at, b.op("add", value, value))
                elif what == "head":
                    b.store(x, at, b.op("subtract", b.load(x, at), leader))
                else:
                    b.store(out, at, b.load(total, i.index))
    return b.finish()


def centred_columns(dtype: Any = np.float64) -> Kernel:
    """Return the kernel out[j, i] = x[j, i] - sum(x[:, i])."""
    b = KernelBuilder("centred_columns")
    x = b.pointer("x", dtype)
    out = b.pointer("out", dtype, writable=True)
    count, length = b.scalar("count"), b.scalar("length")
    with b.loop(count, "parallel") as i:
        with b.loop(length, "reduce", initial=[b.constant(-0.0, dtype)], combine=("add",)) as j:
            at = b.op("add", i.index, b.op("multiply", j.index, count))
            j.yield_(b.op("add", j.carried[0], b.load(x, at)))
        with b.loop(length, "reduce") as k:
            at = b.op("add", i.index, b.op("multiply", k.index, count))
            b.store(out, at, b.op("subtract", b.load(x, at), j.results[0]))
    return b.finish()


def scan(dtype: Any = np.float32) -> Kernel:
    """Return a kernel that computes the cumulative sums of the rows of x."""
    b = KernelBuilder("scan")
    x = b.pointer("x", dtype)
    out = b.pointer("out", dtype, writable=True)
    count, length = b.scalar("count"), b.scalar("length")
    with b.loop(count, "parallel") as i:
        base = b.op("multiply", i.index, length)
        with b.loop(length, "scan", initial=[b.constant(0, dtype)]) as j:
            at = b.op("add", base, j.index)
            value = b.op("add", j.carried[0], b.load(x, at))
            b.store(out, at, value)
            j.yield_(value)
    return b.finish()


def numbers(shape: Any, dtype: Any, seed: int = 0) -> np.ndarray:
    """Return random values of a dtype.

    The values are so small that their sums are exact for integers and accurate for floats.
    """
    source = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return (source.normal(size=shape) + 1j * source.normal(size=shape)).astype(dtype)
    if dtype.kind == "f":
        return source.normal(size=shape).astype(dtype)
    if dtype.kind == "b":
        return source.random(shape) < 0.5
    return source.integers(0, 100, shape).astype(dtype)
