"""Execution of plan steps that call functions on the host.

In: a call and the table of buffers. Out: its result in memory.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

import weft.runtime as runtime  # (modules that draw random numbers load when they are used)
from weft.fusion.graph.expr import contiguous_strides
from weft.fusion.graph.index_map import strided_view
from weft.fusion.plan.steps import HostCall
from weft.runtime import Device, thread_count

_WORD, _FLOAT = np.dtype(np.uint64), np.dtype(np.float64)


def call_launcher(step: HostCall, table: list[Any], device: Device) -> None:
    """Call a host function that launches kernels itself."""
    ((slot, node, window),) = step.operands
    start = node.attrs[1] * node.dtype.itemsize if window else 0
    step.node.attrs[0].enqueue(device, table[step.out], (table[slot], start), node.shape, node.dtype)


def _multiply_on_device(step: HostCall, table: list[Any], device: Device) -> bool:
    """Multiply matrices with a library of the device. Return whether a library supports the operands."""
    operands = []
    for slot, node, window in step.operands:
        strides, offset = node.attrs if window else (contiguous_strides(node.shape), 0)
        operands.append((table[slot].address + offset * node.dtype.itemsize, node.shape, strides))
    left, right = operands
    return device.multiply(table[step.out], left, right, step.node.dtype)


def launch_with_draws(
    streams: list[tuple[int, int, int]],
    table: list[Any],
    device: Device,
    function: Any,
    parallel: tuple[int, ...],
    work: int,
    arguments: array[int],
) -> None:
    """Launch a kernel that needs random numbers. The kernel draws them itself if it can. Otherwise they are drawn first, and it reads them from memory."""
    slots = [slot for _, slot, _ in streams]
    words = [device.view_memory(table[slot], _WORD, (table[slot].nbytes // _WORD.itemsize,)) for slot in slots]
    readers = []
    for (argument, _, count), own in zip(streams, words, strict=True):
        each, read = (arguments[int(n[1:])] if type(n) is str else n for n in function.spans[argument])
        if read <= each:
            readers.append(runtime.StreamOperand(argument, own, each, count))
    if len(readers) == len(streams) and runtime.launch_with_streams(device, function, parallel, arguments, readers):
        return
    held = []
    for (argument, _, count), own in zip(streams, words, strict=True):
        held.append(memory := device.allocate(count * _FLOAT.itemsize))
        runtime.fill_from_stream(device.view_memory(memory, _FLOAT, (count,)), own)
        arguments[argument] = memory.address
    device.launch(function, parallel, work, arguments)


def call_host(step: HostCall, table: list[Any], device: Device) -> None:
    """Execute a plan step that is not a kernel: a host function or a library's matrix product."""
    node = step.node
    if node.op == "matmul" and not device.memory_on_host and _multiply_on_device(step, table, device):
        return
    if runtime.is_gpu(device) and node.op != "matmul" and node.location is not None:
        moved = sum(child.nbytes for _, child, _ in step.operands) + node.nbytes
        runtime.report_fallback(device, node.op, moved, node.location)
    # (many NumPy functions copy read-only operands)
    show = device.view_memory if device.memory_on_host else device.download
    arrays = []
    for slot, child, window in step.operands:
        base = child.operands[0] if window else child
        whole = show(table[slot], base.dtype, base.shape)
        arrays.append(strided_view(whole, child.shape, *child.attrs) if window else whole)
    if device.memory_on_host and node.size:
        # written directly to the output
        out = device.view_memory(table[step.out], node.dtype, node.shape)
        if step.loop is None:
            node.attrs[0](out, *arrays)
        else:
            step.loop.run(node, out, arrays, thread_count())
        return
    out = np.empty(node.shape, node.dtype)
    node.attrs[0](out, *arrays)
    device.write(table[step.out].address, out)
