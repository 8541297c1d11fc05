"""The emitter's `for` loops, over single indices or vectors of indices."""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import STRUCTURAL, Block, Operation, Pointer, Value
from weft.codegen.llvm.emit_streams import StreamEmitter
from weft.codegen.llvm.emit_text import Item, scalar_type, wide
from weft.codegen.ops.op_table import find_op
from weft.codegen.passes.choose_lanes import maskable
from weft.codegen.passes.find_interleaved import find_interleaved
from weft.codegen.passes.index_steps import index_steps, program_order

# Minimum number of operations in a loop body whose loads are prefetched in any kernel. In such a loop, the hardware
# prefetches less than one iteration ahead, and prefetch instructions cost little compared with the other operations.
LONG = 50
ROLLED = 1000  # number of the first metadata node of a loop
# Up to this number of elements, a gather or scatter takes longer than scalar loads or stores, because it costs as much
# as for a whole vector.
SCALAR = 4
EXPENSIVE = 8  # minimum cost of functions and divisions


class LoopEmitter(StreamEmitter):
    """The part of the emitter for `for` loops."""

    def loop(self, operation: Operation) -> None:
        """Emit a `for` loop, vectorized if it has lanes."""
        start, stop = (self.scalar_of(v) for v in operation.operands[:2])
        if self.outermost and operation.attributes["role"] == "parallel" and self.kernel.level == "logical":
            self.outermost = False
            start, stop = (self.narrowed(text, "trunc") for text in ("%begin", "%end"))  # the part of this call
        step: int | str = operation.attributes.get("step", 1)
        initial = operation.operands[2:]
        if operation.attributes.get("step_from"):
            *initial, last = initial  # type: ignore[assignment]
            step = self.scalar_of(last)
        lanes = operation.attributes.get("lanes", 0)
        if lanes:
            self.lanes_loop(operation, start, stop, lanes)
            return
        carried = [self.text_of(v, self.lanes) for v in initial]
        rolled, opaque = (bool(operation.attributes.get(name)) for name in ("rolled", "opaque"))
        body = operation.regions[0]
        results = self.plain_loop(body, start, stop, step, carried, self.lanes, rolled=rolled, opaque=opaque)
        for value, text in zip(operation.results, results, strict=True):
            self.environment[value] = Item(text, self.lanes)

    def plain_loop(
        self,
        body: Block,
        start: str,
        stop: str,
        step: int | str,
        carried: list[str],
        lanes: int,
        linear: bool = False,
        last: str = "",
        rolled: bool = False,
        opaque: bool = False,
        apart: int = 0,
    ) -> list[str]:
        """Emit ``for (i = start; i < stop; i += step)`` as a single loop, without a remainder loop.

        `linear` means that the index grows by 1 from lane to lane. If `last` is given, the index of lane 0 in the body
        is at most `last`. With `apart`, the carried values are vectors, and each iteration uses their next lane.
        """
        kind = scalar_type(self.kernel.index_dtype)
        number = self.fresh_number()
        head, inside, after = f"head{number}", f"body{number}", f"after{number}"
        before = self.label
        self.jump(head)
        index, slot = self.reserve_phi()
        phis = []
        for value in body.parameters[1:]:
            phis.append(self.name())
            self.lines.append("")
            self.environment[value] = Item(phis[-1], lanes)
        inner = self.line(f"icmp slt {kind} {index}, {stop}")
        self.fork(inner, inside, after)
        at = index
        if last:
            below = self.line(f"icmp slt {kind} {index}, {last}")
            at = self.line(f"select i1 {below}, {kind} {index}, {kind} {last}")
        if opaque and self.keeps_loops:
            at = self.opaque_index(kind, at)
        self.environment[body.parameters[0]] = Item(at, lanes, 1) if linear else Item(at)
        types = [scalar_type(v.type) for v in body.parameters[1:]]  # type: ignore[arg-type]
        if apart:
            yielded = self.body_of_one_lane(body, self.line(f"sub nsw {kind} {index}, {start}"), phis, apart)
        else:
            yielded = [self.text_of(v, lanes) for v in self.block(body)]
        yielded += ["poison"] * (len(carried) - len(yielded))  # a body that ends in `leave` has no next iteration
        self.polls.end_iteration(body)
        following = self.line(f"add nsw {kind} {index}, {step}")
        self.lines[slot] = f"  {index} = phi {kind} [ {start}, %{before} ], [ {following}, %{self.label} ]"
        for k, (of, phi) in enumerate(zip(types, phis, strict=True)):
            self.lines[slot + 1 + k] = (
                f"  {phi} = phi {wide(of, apart or lanes)} [ {carried[k]}, %{before} ], [ {yielded[k]}, %{self.label} ]"
            )
        self.jump(head, after, self.no_unroll_metadata() if rolled and self.keeps_loops else "")
        return phis

    def body_of_one_lane(self, body: Block, index: str, phis: list[str], apart: int) -> list[str]:
        """Emit a loop body for one vector lane, and return the updated vectors of loop-carried values.

        The lane is the number of the iteration, `index`, modulo the number of lanes, `apart`.
        """
        kind = scalar_type(self.kernel.index_dtype)
        types = [scalar_type(v.type) for v in body.parameters[1:]]  # type: ignore[arg-type]
        lane = self.line(f"and {kind} {index}, {apart - 1}")
        for value, of, phi in zip(body.parameters[1:], types, phis, strict=True):
            self.environment[value] = Item(self.line(f"extractelement {wide(of, apart)} {phi}, {kind} {lane}"))
        return [
            self.line(f"insertelement {wide(of, apart)} {phi}, {of} {text}, {kind} {lane}")
            for of, phi, text in zip(types, phis, [self.text_of(v, 0) for v in self.block(body)], strict=True)
        ]

    def opaque_index(self, kind: str, index: str) -> str:
        """Return a copy of `index` whose value LLVM cannot analyze.

        Otherwise LLVM would keep and advance a 64-bit address for each array, although the machine computes an address
        from an index in one instruction.
        """
        letter = "r" if kind == "i32" else "l"
        return self.line(f'call {kind} asm "mov.b{kind[1:]} $0, $1;", "={letter},{letter}"({kind} {index})')

    def no_unroll_metadata(self) -> str:
        """Return the metadata that disables unrolling of a loop, to attach to its back edge."""
        number = ROLLED + len(self.metadata)
        self.metadata.append(f'!{number} = distinct !{{!{number}, !{{!"llvm.loop.unroll.disable"}}}}')
        return f", !llvm.loop !{number}"

    def lanes_loop(self, operation: Operation, start: str, stop: str, lanes: int) -> None:
        """Emit a vectorized loop, and the code for the iterations that do not fill a vector.

        This code runs under a mask or element by element. If iterations may be repeated, the last vector overlaps the
        previous one instead. A reduction has one accumulator per lane. The accumulators are combined in a fixed tree,
        after a masked remainder but before a remainder that runs element by element.
        """
        kind = scalar_type(self.kernel.index_dtype)
        body = operation.regions[0]
        half = (len(operation.operands) - 2) // 2
        initial = [self.scalar_of(v) for v in operation.operands[2 : 2 + half]]
        identities = operation.operands[2 + half :]
        extent = self.line(f"sub nsw {kind} {stop}, {start}")
        rest = self.line(f"srem {kind} {extent}, {lanes}")
        whole = self.line(f"sub nsw {kind} {stop}, {rest}")
        positive = self.line(f"icmp sgt {kind} {extent}, 0")
        whole = self.line(f"select i1 {positive}, {kind} {whole}, {kind} {start}")
        if not half and self.repeatable(body):
            # the last vector overlaps the previous one so that it ends with the loop: computing some elements twice is
            # cheaper than a scalar remainder
            fits = self.line(f"icmp sge {kind} {extent}, {lanes}")
            whole = self.line(f"select i1 {fits}, {kind} {stop}, {kind} {start}")
            last = self.line(f"sub nsw {kind} {stop}, {lanes}")
        else:
            last = ""
        self.lanes, self.interleaved = lanes, find_interleaved(body, self.unwritten)
        wide_start = [self.splat(self.scalar_of(v), scalar_type(v.type), lanes) for v in identities]  # type: ignore[arg-type]
        outer, self.outermost = self.outermost, False
        fetched = any(o.opcode == "fetch" for o in body.operations)
        self.fetching = not fetched and (self.streams or len(body.operations) >= LONG)
        apart, masked = operation.attributes.get("apart"), self.dialect.masks and maskable(operation)
        if apart:
            self.lanes, end = 0, stop if masked else whole
            vectors = self.plain_loop(body, start, end, 1, wide_start, 0, apart=lanes)
            self.lanes = lanes
        elif last and self.streams and self.fills_lines(body, lanes):
            self.stream_loop(body, start, whole, lanes, last)
            vectors = []
        else:
            vectors = self.plain_loop(body, start, whole, lanes, wide_start, lanes, linear=True, last=last)
        self.fetching = False
        if masked and not apart:
            end = stop
            if not half and self.is_strided_inner_loop(operation):
                few = self.line(f"icmp sle {kind} {self.line(f'sub nsw {kind} {stop}, {whole}')}, {SCALAR}")
                end = self.line(f"select i1 {few}, {kind} {whole}, {kind} {stop}")
            # (half as many lanes: the rows of many arrays are shorter than two vectors)
            self.lanes = lanes if half else max(4, lanes // 2)
            vectors = self.masked_iterations(body, whole, end, vectors, self.lanes)
            if end != stop:
                self.lanes = 0
                self.plain_loop(body, end, stop, 1, [], 0)
        if half:
            initial = self.combine_lanes(operation.regions[1], vectors, initial, lanes)
        self.lanes = 0
        results = initial if masked else self.plain_loop(body, whole, stop, 1, initial, 0)
        self.outermost = outer
        for value, text in zip(operation.results, results, strict=True):
            self.environment[value] = Item(text)

    def is_strided_inner_loop(self, loop: Operation) -> bool:
        """Return whether a loop is an inner loop that has strided accesses and no expensive operations.

        The last iterations of such a loop may run as scalars. The results of expensive operations would then depend on
        whether a vector function or a scalar function computes them.
        """
        body = loop.regions[0]
        inside = list(program_order(body.operations))
        if any(operation is loop for operation in self.kernel.body.operations):
            return False
        if any(o.opcode not in STRUCTURAL and find_op(o.opcode).cost >= EXPENSIVE for o in inside):
            return False
        steps = index_steps(inside, body.parameters[0])
        return any(o.opcode in ("load", "store") and steps.get(o.operands[1], 0) not in (0, 1) for o in inside)

    def masked_iterations(self, body: Block, start: str, stop: str, carried: list[str], lanes: int) -> list[str]:
        """Emit the iterations from `start` to `stop` under a mask.

        A body that carries values is emitted once, for fewer iterations than lanes. Other bodies get a loop.
        """
        kind = scalar_type(self.kernel.index_dtype)
        number = self.fresh_number()
        inside, after = f"rest{number}", f"after{number}"
        some = self.line(f"icmp slt {kind} {start}, {stop}")
        before = self.label
        self.fork(some, inside, after)
        first, slot = self.reserve_phi()
        left = self.line(f"sub nsw {kind} {stop}, {first}")
        several = self.line(f"icmp sgt {kind} {left}, {lanes}")
        self.active = self.line(f"select i1 {several}, {kind} {lanes}, {kind} {left}")
        every = "<" + ", ".join(f"{kind} {k}" for k in range(lanes)) + ">"
        self.mask = self.line(f"icmp slt <{lanes} x {kind}> {every}, {self.splat(self.active, kind, lanes)}")
        taken = self.mask
        self.environment[body.parameters[0]] = Item(first, lanes, 1)
        for value, text in zip(body.parameters[1:], carried, strict=True):
            self.environment[value] = Item(text, lanes)
        yielded = [self.text_of(v, lanes) for v in self.block(body)]
        self.mask = self.active = ""
        kinds = [wide(scalar_type(v.type), lanes) for v in body.parameters[1:]]  # type: ignore[arg-type]
        chosen = [
            self.line(f"select <{lanes} x i1> {taken}, {of} {new}, {of} {old}")
            for of, new, old in zip(kinds, yielded, carried, strict=True)
        ]
        following = self.line(f"add nsw {kind} {first}, {lanes}")
        more = "false" if carried else self.line(f"icmp slt {kind} {following}, {stop}")
        ended = self.label
        self.lines[slot] = f"  {first} = phi {kind} [ {start}, %{before} ], [ {following}, %{ended} ]"
        self.fork(more, inside, after, after)
        return [
            self.line(f"phi {of} [ {old}, %{before} ], [ {new}, %{ended} ]")
            for of, new, old in zip(kinds, chosen, carried, strict=True)
        ]

    @property
    def unwritten(self) -> set[Value]:
        """The pointers to memory that the kernel does not write."""
        return {p.value for p in self.kernel.parameters if p.noalias and not p.writable}

    def repeatable(self, body: Block) -> bool:
        """Return whether executing a loop body twice for the same index has the same effect as executing it once."""
        safe = self.unwritten
        stack = [body]
        while stack:
            for operation in stack.pop().operations:
                pointer = operation.operands[0] if operation.opcode == "load" else None
                # local memory holds copies of memory that the kernel does not write
                own = pointer is not None and isinstance(pointer.type, Pointer) and pointer.type.space == "local"
                if operation.opcode == "atomic" or (pointer is not None and pointer not in safe and not own):
                    return False
                stack.extend(operation.regions)
        return True

    def combine_lanes(self, combine: Block, vectors: list[str], initial: list[str], lanes: int) -> list[str]:
        """Emit a reduction of the accumulators of all lanes, and combine the result with the initial values.

        In each step, one half of the lanes is combined with the other half.
        """
        half = len(vectors)
        kinds = [scalar_type(v.type) for v in combine.parameters[:half]]  # type: ignore[arg-type]
        while lanes > 1:
            lanes //= 2
            parts: list[list[str]] = [[], []]
            for text, kind in zip(vectors, kinds, strict=True):
                for side in (0, 1):
                    if lanes == 1:
                        parts[side].append(self.line(f"extractelement <2 x {kind}> {text}, i64 {side}"))
                    else:
                        order = range(side * lanes, (side + 1) * lanes)
                        parts[side].append(self.shuffled(wide(kind, 2 * lanes), order, text))
            vectors = self.apply(combine, [*parts[0], *parts[1]], lanes if lanes > 1 else 0)
        return self.apply(combine, [*initial, *vectors], 0)

    def apply(self, block: Block, arguments: list[str], lanes: int) -> list[str]:
        """Emit a block inline, with `arguments` bound to its parameters, and return its results."""
        before, self.lanes = self.lanes, lanes
        for parameter, text in zip(block.parameters, arguments, strict=True):
            self.environment[parameter] = Item(text, lanes)
        results = [self.text_of(v, lanes) for v in self.block(block)]
        self.lanes = before
        return results
