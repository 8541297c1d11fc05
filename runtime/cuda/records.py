"""Launch records: kernel launches as 64-bit words.

In: kernels with grids and arguments, and the arguments that change between runs. Out: records. Invariant: a record is
a block of 64-bit words at a fixed address, and only one thread uses it while it runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.runtime.allocation_report import show_location

# Words of a record: numbers of launches, of addresses, of scalars and of changes; addresses of the indices, of the
# values, of the launches and of the changes; the executable graph, or 0; the call that failed.
LAUNCHES, BUFFERS, NUMBERS, PATCHES, INDICES, VALUES, FIRST, CHANGES, GRAPH, FAILED, HEAD = range(11)
# Words of a launch: CUlaunchConfig (grid, block, shared bytes, stream, attributes); the function; the address of its
# arguments; whether an argument has changed; its node in a graph; CUDA_KERNEL_NODE_PARAMS.
STREAM, ATTRIBUTES, ATTRIBUTE_COUNT, FUNCTION, ARGUMENTS, CHANGED, NODE, PARAMETERS = range(4, 12)
LAUNCH = PARAMETERS + 9
# Words of a change: the byte offset of a value, the number to add to the value, the address of the argument, and the
# address of the word that marks the launch as changed.
PATCH = 4
COOPERATIVE = (2, 1, 0, 0, 0, 0, 0, 0, 0)  # a CUlaunchAttribute
# Values of FAILED for calls other than launches.
ENTERING, REPLAYING = -1, -2

Triple = tuple[int, int, int]


class LaunchedKernel(NamedTuple):
    """The name and source location of a launched kernel, for messages."""

    name: str
    origin: Any

    def __str__(self) -> str:
        location = show_location(self.origin)
        return f"{self.name} ({location})" if location else self.name


@dataclass(slots=True)
class RecordedLaunch:
    """One kernel launch of a launch record.

    Attributes
    ----------
    function
        What `CudaDevice.load` returned.
    grid, block : (int, int, int)
    shared_bytes : int
        Bytes of dynamic shared memory per block.
    arguments : array of int64
        The arguments.
    patches : list of (argument, slot, byte offset)
        Arguments that are the address of the buffer at index `slot` of the table, plus an offset.
    numbers : list of (argument, slot)
        Arguments that are the integer at index `slot` of the table.
    nbytes : int
        Bytes that the kernel moves, or 0 if unknown.
    origin : (code, int) or None
        The user's source location, for messages.
    """

    function: Any
    grid: Triple
    block: Triple
    shared_bytes: int
    arguments: array[int]
    patches: Sequence[tuple[int, int, int]] = ()
    numbers: Sequence[tuple[int, int]] = ()
    nbytes: int = 0
    origin: Any = None

    def doing(self) -> LaunchedKernel:
        """Return the name and source location of the kernel, for messages."""
        return LaunchedKernel(self.function.name, self.origin or self.function.origin)


class LaunchRecord:
    """Several kernel launches as 64-bit words, which the native launcher reads.

    Attributes
    ----------
    address : int
        The address of the first word.
    words : array of int64
    runs : int
        The number of runs so far.
    graph
        The CUDA graph that replays the launches, or None.
    """

    __slots__ = ("_first", "address", "graph", "runs", "words")

    def __init__(self, starts: Sequence[RecordedLaunch]) -> None:
        self.runs = 0
        self.graph: Any = None
        slots = list(dict.fromkeys(slot for s in starts for _, slot, _ in s.patches))
        numbers = list(dict.fromkeys(slot for s in starts for _, slot in s.numbers))
        value_of = {("address", slot): k for k, slot in enumerate(slots)}
        value_of |= {("number", slot): len(slots) + k for k, slot in enumerate(numbers)}
        values = HEAD + len(value_of)
        self._first = values + len(value_of)
        changes = self._first + LAUNCH * len(starts)
        count = sum(len(s.patches) + len(s.numbers) for s in starts)
        arguments = changes + PATCH * count
        attribute = arguments + sum(2 * len(s.arguments) for s in starts)
        self.words = words = array("q", bytes(8 * (attribute + len(COOPERATIVE))))
        base = self.address = words.buffer_info()[0]
        words[:HEAD] = array(
            "q",
            [len(starts), len(slots), len(numbers), count]
            + [base + 8 * where for where in (HEAD, values, self._first, changes)]
            + [0, 0],
        )
        words[HEAD:values] = array("q", [*slots, *numbers])
        words[attribute:] = array("q", COOPERATIVE)
        for k, start in enumerate(starts):
            size = len(start.arguments)
            pointers, arguments = arguments, arguments + size
            words[pointers:arguments] = array("q", [base + 8 * (arguments + j) for j in range(size)])
            words[arguments : arguments + size] = start.arguments
            self._write(k, start, base + 8 * pointers, base + 8 * attribute)
            mark = base + 8 * (self._first + LAUNCH * k + CHANGED)
            found = [(value_of["address", slot], offset, argument) for argument, slot, offset in start.patches]
            found += [(value_of["number", slot], 0, argument) for argument, slot in start.numbers]
            for value, offset, argument in found:
                # (for a parameter that is passed by value, the driver copies from the address in the list of arguments)
                at = pointers if argument in start.function.by_value else arguments
                words[changes : changes + PATCH] = array("q", [8 * value, offset, base + 8 * (at + argument), mark])
                changes += PATCH
            arguments += size

    def _write(self, k: int, start: RecordedLaunch, arguments: int, attribute: int) -> None:
        words, at = self.words, self._first + LAUNCH * k
        halves = (*start.grid, *start.block, start.shared_bytes, 0)
        size = array("q", [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)])
        words[at : at + 4] = words[at + PARAMETERS + 1 : at + PARAMETERS + 5] = size
        if start.function.cooperative:
            words[at + ATTRIBUTES], words[at + ATTRIBUTE_COUNT] = attribute, 1
        words[at + FUNCTION] = words[at + PARAMETERS] = int(start.function.handle)
        words[at + ARGUMENTS] = words[at + PARAMETERS + 5] = arguments

    def parameters(self, k: int) -> int:
        """Return the address of the CUDA_KERNEL_NODE_PARAMS structure of launch number `k`."""
        return self.address + 8 * (self._first + LAUNCH * k + PARAMETERS)

    def attach(self, graph: Any, nodes: Sequence[int]) -> None:
        """Let later runs replay a CUDA graph, whose nodes use the arguments in this record."""
        for k, node in enumerate(nodes):
            at = self._first + LAUNCH * k
            self.words[at + NODE], self.words[at + CHANGED] = node, 0
        self.graph = graph
        self.words[GRAPH] = graph.executable

    def detach(self) -> None:
        """Make later runs launch the kernels one by one, without a CUDA graph."""
        self.words[GRAPH] = 0
        self.graph = None
