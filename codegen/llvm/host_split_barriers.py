"""Emission of synchronization points between loops over threads.

Except at plain barriers, each thread contributes a value, and receives a result that is computed from the values of
one or several threads.

In: synchronization points that all threads of a block reach, or all threads of a branch. Out: code at the end of a
run, between runs, and at the start of the next run. Invariant: each synchronization point has its own arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.codegen.kernel_ir.operation import Operation, Value
from weft.codegen.llvm.emit import Item, scalar_type
from weft.codegen.llvm.host_exchange import count_result, reduce_warp, site_of, source_lane, vote_result
from weft.codegen.llvm.host_grid import range_loop
from weft.codegen.llvm.host_split_arrays import NOTE, ArrayEmitter, memory_of
from weft.codegen.passes.split_at_barriers import Branch

MASK = "i256"  # type of the bytes of a branch's mask that belong to the threads of a warp
ALL_LANES = int.from_bytes(b"\1" * 32)


class BarrierEmitter(ArrayEmitter):
    """Emitter of synchronization points."""

    def clear_masks(self, operation: Operation) -> None:
        """Emit code that clears the masks of a branch before the threads evaluate its condition.

        A mask has one byte per thread: 1 if the thread takes the region.
        """
        for k, region in enumerate(operation.regions):
            if self.split.steps[region]:
                if (operation, k) not in self.masks:
                    self.masks[operation, k] = self.array(1)
                many = self.line(f"and i64 {self.line(f'add nuw nsw i64 {self.threads}, 31')}, -32")  # whole warps
                self.clear(self.masks[operation, k], many)

    def find_range(self, branch: Branch) -> None:
        """Emit code that finds the smallest range of warps containing all threads that take a branch.

        Both ends are thread numbers that are multiples of 32. The range is 0 to 0 if there are no such threads.
        """
        first, end = self.variable("i64", "0"), self.variable("i64", "0")
        warps = self.line(f"lshr i64 {self.line(f'add nuw nsw i64 {self.threads}, 31')}, 5")
        with range_loop(self, "i64", "0", warps) as warp:
            taken = self.line(f"icmp ne {MASK} {self.load_mask(branch, warp)}, 0")
            none = self.line(f"icmp eq i64 {self.line(f'load i64, ptr {end}, align 8')}, 0")
            begins = self.line(f"and i1 {taken}, {none}")
            after = self.line(f"add nuw nsw i64 {warp}, 1")
            for spot, holds, number in ((first, begins, warp), (end, taken, after)):
                before = self.line(f"load i64, ptr {spot}, align 8")
                number = self.line(f"shl nuw nsw i64 {number}, 5")
                self.do(f"store i64 {self.line(f'select i1 {holds}, i64 {number}, i64 {before}')}, ptr {spot}, align 8")
        self.ranges[branch] = self.line(f"load i64, ptr {first}, align 8"), self.line(f"load i64, ptr {end}, align 8")

    def load_mask(self, branch: Branch, warp: str) -> str:
        """Emit a load of 32 mask bytes: one byte for each thread of a warp. A byte states whether the thread takes the branch."""
        return self.line(f"load {MASK}, ptr {self.slot(self.masks[branch], MASK, warp)}, align 32")

    def store_contribution(self, operation: Operation) -> None:
        """Emit code that stores what a thread contributes to a synchronization point, such as its vote or its value in a warp shuffle."""
        if operation in self.split.in_step:
            taken = self.line(f"zext i1 {self.scalar_of(operation.operands[0])} to i8")
            for k in (0, 1):
                if (operation, k) in self.masks:
                    byte = taken if k == 0 else self.line(f"xor i8 {taken}, 1")
                    self.do(f"store i8 {byte}, ptr {self.slot(self.masks[operation, k], 'i8')}, align 1{NOTE}")
            return
        value = operation.operands[0 if operation.opcode in ("shuffle_xor", "barrier_vote") else 1]
        if operation not in self.contributions:
            self.contributions[operation] = self.array(memory_of(value)[1])
        self.store_value(value, self.contributions[operation])

    def participates(self, operation: Operation, thread: str, gone: str = "", note: str = "") -> str:
        """Emit a test (i1) of whether a thread participates in an operation.

        A participating thread has not left the kernel, and takes the branch that contains the operation, if any. `gone`
        is the array of the threads that have left the kernel, and `note` is the metadata of the loads.
        """
        stays = self.is_running(operation, thread, gone, note)
        branch = self.split.branches[operation]
        if branch is None:
            return stays
        taken = self.line(f"icmp ne i8 {self.load_byte(self.masks[branch], thread, note)}, 0")
        return taken if stays == "true" else self.line(f"and i1 {stays}, {taken}")

    def is_running(self, operation: Operation, thread: str, gone: str = "", note: str = "") -> str:
        """Emit a test of whether a thread at a synchronization point is still running the kernel."""
        if operation not in self.split.uniform.late:
            return "true"
        return self.line(f"icmp eq i8 {self.load_byte(gone or self.gone, thread, note)}, 0")

    def combine_contributions(self, operation: Operation) -> None:
        """Emit the part of a synchronization point that runs once, after all threads have arrived."""
        if operation in self.split.strict:
            self.report_divergence(operation)
        match operation.opcode:
            case "barrier_vote":
                self.count_votes(operation)
            case "vote":
                self.collect_ballots(operation)
            case "warp_reduce":
                self.reduce_warps(operation)
            case "shuffle" | "shuffle_xor" if operation in self.split.uniform.late:
                # determine the participants now: the run that receives the values may have threads that leave
                (array,) = self.result_arrays(operation, (1,))
                arguments = [("ptr", array), ("ptr", self.gone), ("i64", self.threads), ("i1", "false")]
                self.call("llvm.memcpy.p0.p0.i64", "void", arguments)
            case _:
                pass  # the end of the loop over threads is the barrier

    def report_divergence(self, operation: Operation) -> None:
        """Emit a check that fails if only some lanes of a warp reach a synchronization point.

        On a GPU, the lanes that reach the synchronization point could wait forever. The fault record names one lane
        that waits, and one running lane that does not.
        """
        site = len(self.sites)
        self.sites.append(site_of(operation))
        fault = self.line(f"inttoptr i64 {self.dialect.read_slot(self, len(self.kernel.parameters) + 7)} to ptr")
        with range_loop(self, "i64", *self.warps_at(operation)) as warp:
            number = self.fresh_number()
            branch = self.split.branches[operation]
            assert branch is not None
            mask = self.load_mask(branch, warp)
            equal = [self.line(f"icmp eq {MASK} {mask}, {bits}") for bits in (0, ALL_LANES)]
            self.fork(self.line(f"or i1 {equal[0]}, {equal[1]}"), f"whole{number}", f"some{number}", f"some{number}")
            found = [self.variable("i64", "-1") for _ in range(2)]  # a lane that waits, a lane that does not
            with self.lanes_of(warp) as (thread, _):
                stays, there = self.is_running(operation, thread), self.participates(operation, thread)
                passes = self.line(f"and i1 {stays}, {self.line(f'xor i1 {there}, true')}")
                for spot, holds in zip(found, (there, passes), strict=True):
                    before = self.line(f"load i64, ptr {spot}, align 8")
                    first = self.line(f"and i1 {holds}, {self.line(f'icmp slt i64 {before}, 0')}")
                    kept = self.line(f"select i1 {first}, i64 {thread}, i64 {before}")
                    self.do(f"store i64 {kept}, ptr {spot}, align 8")
            waits, passes = (self.line(f"load i64, ptr {spot}, align 8") for spot in found)
            both = self.line(
                f"and i1 {self.line(f'icmp sge i64 {waits}, 0')}, {self.line(f'icmp sge i64 {passes}, 0')}"
            )
            self.fork(both, f"fault{number}", f"whole{number}")
            block = self.block_number
            if self.grid_in_step:
                inside = self.line(f"udiv i64 {waits}, {self.block_threads}")
                block = self.line(f"add nuw nsw i64 {block}, {inside}")
                waits, passes = (self.line(f"urem i64 {lane}, {self.block_threads}") for lane in (waits, passes))
            for word, text in enumerate(("1", block, waits, str(site), passes, "-1")):
                spot = self.line(f"getelementptr inbounds i64, ptr {fault}, i64 {word}")
                self.do(f"store i64 {text}, ptr {spot}, align 8")
            self.jump("ends", f"whole{number}")

    def count_votes(self, operation: Operation) -> None:
        """Emit code that computes the result of a barrier vote."""
        votes, members = self.variable("i32", "0"), self.variable("i32", "0")
        with range_loop(self, "i64", "0", self.threads) as thread:
            counts, takes_part = self.load_ballot(operation, thread)
            self.increase(votes, counts)
            self.increase(members, takes_part)
        count = self.line(f"load i32, ptr {votes}, align 4")
        kind = operation.attributes["kind"]
        count = count_result(self, kind, count, lambda: self.line(f"load i32, ptr {members}, align 4"))
        self.set(operation, Item(count))

    def load_ballot(self, operation: Operation, thread: str) -> tuple[str, str]:
        """Emit code that determines whether a thread votes true, and whether it votes at all.

        Both results are 0 or 1 (i32).
        """
        vote = self.load_byte(self.contributions[operation], thread)
        takes_part = self.line(f"zext i1 {self.participates(operation, thread)} to i32")
        return self.line(f"and i32 {self.line(f'zext i8 {vote} to i32')}, {takes_part}"), takes_part

    def increase(self, address: str, by: str) -> None:
        """Emit the addition of a value to a 32-bit integer in memory."""
        before = self.line(f"load i32, ptr {address}, align 4")
        self.do(f"store i32 {self.line(f'add i32 {before}, {by}')}, ptr {address}, align 4")

    def result_arrays(self, operation: Operation, sizes: tuple[int, ...]) -> list[str]:
        """Return the arrays for the results of a synchronization point.

        The first call reserves the arrays. `sizes` are the bytes per element of each array.
        """
        if operation not in self.stored_results:
            self.stored_results[operation] = [self.array(size) for size in sizes]
        return self.stored_results[operation]

    def collect_ballots(self, operation: Operation) -> None:
        """Emit code that computes two masks per warp: the lanes with true votes, and the participating lanes."""
        arrays = self.result_arrays(operation, (4, 4))
        with range_loop(self, "i64", *self.warps_at(operation)) as warp:
            bits = [self.variable("i32", "0"), self.variable("i32", "0")]
            with self.lanes_of(warp) as (thread, lane):
                for address, bit in zip(bits, self.load_ballot(operation, thread), strict=True):
                    self.increase(address, self.line(f"shl i32 {bit}, {lane}"))
            for array, address in zip(arrays, bits, strict=True):
                text = self.line(f"load i32, ptr {address}, align 4")
                self.do(f"store i32 {text}, ptr {self.slot(array, 'i32', warp)}, align 4")

    def reduce_warps(self, operation: Operation) -> None:
        """Emit a reduction over the lanes of each warp."""
        dtype = operation.operands[1].dtype
        kind, size = scalar_type(dtype), dtype.itemsize
        (array,) = self.result_arrays(operation, (size,))

        def read(thread: str) -> str:
            return self.line(f"load {kind}, ptr {self.slot(self.contributions[operation], kind, thread)}, align {size}")

        @contextmanager
        def lanes(warp: str) -> Iterator[tuple[str, str]]:
            with self.lanes_of(warp) as (thread, _):
                yield read(thread), self.participates(operation, thread)

        with range_loop(self, "i64", *self.warps_at(operation)) as warp:
            members = self.variable("i32", "0")
            first = self.line(f"shl nuw nsw i64 {warp}, 5")
            with self.lanes_of(warp) as (thread, _):
                self.increase(members, self.line(f"zext i1 {self.participates(operation, thread)} to i32"))
            is_complete = self.line(f"icmp eq i32 {self.line(f'load i32, ptr {members}, align 4')}, 32")

            def read_lane(lane: int, first: str = first) -> str:
                return read(self.line(f"add nuw nsw i64 {first}, {lane}"))

            text = reduce_warp(self, operation, is_complete, read_lane, lanes(warp))
            self.do(f"store {kind} {text}, ptr {self.slot(array, kind, warp)}, align {size}")

    def warps_at(self, operation: Operation) -> tuple[str, str]:
        """Emit code that finds the range of warps with threads at a synchronization point.

        Return the number of the first warp, and the number after the last one.
        """
        branch = self.split.branches[operation]
        first, end = self.ranges[branch] if branch is not None else ("0", self.threads)
        start = first if first == "0" else self.line(f"lshr i64 {first}, 5")
        return start, self.line(f"lshr i64 {self.line(f'add nuw nsw i64 {end}, 31')}, 5")

    @contextmanager
    def lanes_of(self, warp: str) -> Iterator[tuple[str, str]]:
        """Context manager that emits a loop over a warp's threads, and yields thread (i64) and lane (i32) numbers."""
        first = self.line(f"shl nuw nsw i64 {warp}, 5")
        behind = self.line(f"add nuw nsw i64 {first}, 32")
        stop = self.call("llvm.umin.i64", "i64", [("i64", self.threads), ("i64", behind)])
        with range_loop(self, "i64", first, stop) as thread:
            yield thread, self.line(f"and i32 {self.line(f'trunc i64 {thread} to i32')}, 31")

    def load_result(self, operation: Operation) -> None:
        """Emit code that loads the value that a warp operation (a vote, a reduction or a shuffle) returns to the current thread."""
        match operation.opcode:
            case "vote":
                text = self.load_vote(operation)
            case "warp_reduce":
                dtype = operation.results[0].dtype
                text = self.load_of_warp(self.stored_results[operation][0], scalar_type(dtype), dtype.itemsize)
            case _:
                text = self.load_shuffle(operation)
        self.set(operation, Item(text))

    def load_of_warp(self, array: str, kind: str, size: int) -> str:
        """Emit a load of the element of `array` for the current thread's warp."""
        warp = self.line(f"lshr i64 {self.linear}, 5")
        return self.line(f"load {kind}, ptr {self.slot(array, kind, warp)}, align {size}{NOTE}")

    def load_vote(self, operation: Operation) -> str:
        """Emit a load of the result of a warp vote for the current thread."""
        ballots, members = self.stored_results[operation]
        ballot = self.load_of_warp(ballots, "i32", 4)
        return vote_result(self, operation.attributes["kind"], ballot, lambda: self.load_of_warp(members, "i32", 4))

    def load_shuffle(self, operation: Operation) -> str:
        """Emit a load of another lane's value, or of the thread's own value if that lane is unavailable."""
        if operation.opcode == "shuffle_xor":
            value, other = operation.operands[0], str(operation.attributes["mask"])
        else:
            value, other = operation.operands[1], self.scalar_of(operation.operands[2])
        lane = self.line(f"and i32 {self.line(f'trunc i64 {self.linear} to i32')}, 31")
        source, inside = source_lane(self, operation, lane, other)
        partial = operation in self.split.uniform.late or (
            self.split.branches[operation] is not None and operation not in self.split.strict
        )
        near = self.line(f"and i32 {other}, 31")
        if self.is_shift(operation):
            return self.load_shifted(operation, value, (inside, source, lane), near, partial)
        away = self.line(f"sext i32 {self.line(f'sub i32 {source}, {lane}')} to i64")
        thread = self.line(f"add nsw i64 {self.linear}, {away}")
        exists = self.line(f"icmp ult i64 {thread}, {self.threads}")
        take = self.line(f"and i1 {inside}, {exists}")
        safe = self.line(f"select i1 {take}, i64 {thread}, i64 {self.linear}")
        if partial:
            there = self.participates(operation, safe, self.stored_results.get(operation, [""])[0])
            safe = self.line(f"select i1 {there}, i64 {safe}, i64 {self.linear}")
        return self.load_value(value, self.contributions[operation], safe)

    def is_shift(self, operation: Operation) -> bool:
        """Return whether a shuffle is a shift: each lane reads the lane whose number differs from its own number by a fixed amount."""
        mode = operation.attributes.get("mode", "xor")
        if mode == "xor":
            mask = operation.attributes.get("mask")
            mask = self.constants.get(operation.operands[-1]) if mask is None else mask
            return mask is not None and (int(mask) & 31).bit_count() == 1
        return mode in ("up", "down") and not self.split.uniform.differs(operation.operands[2:])

    def load_shifted(
        self, operation: Operation, value: Value, source_lane: tuple[str, str, str], distance: str, partial: bool
    ) -> str:
        """Emit a load of a value from the lane that is `distance` lanes above or below the current lane.

        `distance` is an i32 that is the same for all lanes.

        If there is no such lane, the code loads the thread's own value. `source_lane` consists of whether the group has
        such a lane, the number of that lane, and the number of the current lane. `partial` states whether some lanes
        may not participate. The addresses of adjacent threads are adjacent, so that LLVM uses vector loads. Values of
        threads that do not exist are loaded from the padding of the arrays, and not used.
        """
        inside, source, lane = source_lane
        kind, mode = self.type_of(value.type), operation.attributes.get("mode", "xor")
        array, away = self.contributions[operation], self.line(f"zext i32 {distance} to i64")
        numbers = {
            word: self.line(f"{word} nsw i64 {self.linear}, {away}")
            for word, modes in (("add", ("down", "xor")), ("sub", ("up", "xor")))
            if mode in modes
        }
        above = self.line(f"icmp sgt i32 {source}, {lane}")

        def choose(texts: list[str], kind: str) -> str:
            return (
                texts[0] if len(texts) == 1 else self.line(f"select i1 {above}, {kind} {texts[0]}, {kind} {texts[1]}")
            )

        other = choose([self.load_value(value, array, number) for number in numbers.values()], kind)
        first, count = (self.line(f"trunc i64 {text} to i32") for text in (self.linear, self.threads))
        thread = self.line(f"add i32 {first}, {self.line(f'sub i32 {source}, {lane}')}")
        take = self.line(f"and i1 {inside}, {self.line(f'icmp ult i32 {thread}, {count}')}")
        if partial:
            gone = self.stored_results.get(operation, [""])[0]
            there = [self.participates(operation, number, gone, NOTE) for number in numbers.values()]
            take = self.line(f"and i1 {take}, {choose(there, 'i1')}")
        own = self.load_value(value, array)
        return self.line(f"select i1 {take}, {kind} {other}, {kind} {own}")
