"""The emitter's control flow: branches, scopes, functions and calls."""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import Function, Operation
from weft.codegen.llvm.emit_text import Item, Writer, struct_type, wide
from weft.codegen.passes.index_steps import program_order
from weft.runtime import CompileError

# Maximum number of branches in a region that is emitted both with and without masks: each branch may double the code.
MOST_BRANCHES = 2


class ControlEmitter(Writer):
    """The part of the emitter that emits branches, scopes and calls."""

    def branch(self, operation: Operation) -> None:
        """Emit an `if` as a branch, or under masks if the condition differs between vector lanes."""
        if self.environment[operation.operands[0]].lanes:
            self.masked_branch(operation)
            return
        condition = self.scalar_of(operation.operands[0])
        number = self.fresh_number()
        labels = [f"then{number}", f"else{number}"]
        self.do(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        ends: list[tuple[list[str], str]] = []
        for label, region in zip(labels, operation.regions, strict=True):
            self.start_label(label)
            texts = [self.text_of(v, self.lanes) for v in self.block(region)]
            # a region that ends in `leave` yields no values, and the block that branches to the join is unreachable
            texts += ["poison"] * (len(operation.results) - len(texts))
            ends.append((texts, self.label))
            self.do(f"br label %join{number}")
        self.join(operation, number, ends)

    def join(self, operation: Operation, number: int, ends: list[tuple[list[str], str]]) -> None:
        """Start the code after an `if`, and emit phi instructions for its results.

        `ends` contains the results and the last label of each predecessor.
        """
        self.start_label(f"join{number}")
        for k, value in enumerate(operation.results):
            kind = wide(self.type_of(value.type), self.lanes)
            incoming = ", ".join(f"[ {texts[k]}, %{label} ]" for texts, label in ends)
            self.environment[value] = Item(self.line(f"phi {kind} {incoming}"), self.lanes)

    def masked_branch(self, operation: Operation) -> None:
        """Emit an `if` whose condition differs between vector lanes.

        If the operation has the attribute ``likely`` and is not itself under a mask, there is also code without masks
        for the case that all lanes take the same region, unless the region has many branches. On most processors,
        masked loads of bytes take one branch per lane.
        """
        lanes = self.lanes
        ends: list[tuple[list[str], str]] = []
        condition = self.text_of(operation.operands[0], lanes)
        number = self.fresh_number()
        if "likely" in operation.attributes and not self.mask:
            bits = self.line(f"bitcast <{lanes} x i1> {condition} to i{lanes}")
            for region, all_lanes in zip(operation.regions, (-1, 0), strict=True):
                if sum(o.opcode == "if" for o in program_order(region.operations)) > MOST_BRANCHES:
                    continue
                same = self.line(f"icmp eq i{lanes} {bits}, {all_lanes}")
                self.fork(same, f"same{number}.{len(ends)}", f"mixed{number}.{len(ends)}")
                ends.append(([self.text_of(v, lanes) for v in self.block(region)], self.label))
                self.jump(f"join{number}", f"mixed{number}.{len(ends) - 1}")
        texts = self.regions_under_masks(operation, condition)
        if ends:
            ends.append((texts, self.label))
            self.do(f"br label %join{number}")
            self.join(operation, number, ends)
            return
        for value, text in zip(operation.results, texts, strict=True):
            self.environment[value] = Item(text, lanes)

    def regions_under_masks(self, operation: Operation, condition: str) -> list[str]:
        """Emit both regions of an `if` under masks, and return the results as vectors.

        A region is skipped if no lane takes it.
        """
        lanes, outer = self.lanes, self.mask
        ones = "<" + ", ".join(["i1 true"] * lanes) + ">"
        masks = [condition, self.line(f"xor <{lanes} x i1> {condition}, {ones}")]
        given: list[list[str]] = []
        for region, mask in zip(operation.regions, masks, strict=True):
            self.mask = self.line(f"and <{lanes} x i1> {mask}, {outer}") if outer else mask
            bits = self.line(f"bitcast <{lanes} x i1> {self.mask} to i{lanes}")
            taken = self.line(f"icmp ne i{lanes} {bits}, 0")
            before = self.label
            with self.when(taken):
                texts = [self.text_of(v, lanes) for v in self.block(region)]
                after = self.label
            kinds = [wide(self.type_of(v.type), lanes) for v in operation.results]
            given.append(
                [
                    self.line(f"phi {kind} [ {text}, %{after} ], [ zeroinitializer, %{before} ]")
                    for kind, text in zip(kinds, texts, strict=True)
                ]
            )
        self.mask = outer
        return [
            self.line(f"select <{lanes} x i1> {condition}, {kind} {then}, {kind} {other}")
            for kind, then, other in zip(kinds, *given, strict=True)
        ]

    def scope(self, operation: Operation) -> None:
        """Emit the code of a scope, followed by an LLVM label. A `leave` operation that names this scope jumps to the label."""
        behind = f"behind{self.fresh_number()}"
        self.scopes.append((operation.attributes["label"], behind))
        self.block(operation.regions[0])
        self.scopes.pop()
        self.jump(behind)

    def repeat(self, operation: Operation) -> None:
        """Emit an infinite loop, which ends only by a jump out of its body."""
        number = self.fresh_number()
        self.jump(f"again{number}")
        self.block(operation.regions[0])
        self.polls.end_repetition(operation)
        self.jump(f"again{number}", f"never{number}")

    def leave(self, operation: Operation) -> None:
        """Emit a branch to the end of a scope. The code after the branch is unreachable."""
        wanted = operation.attributes["label"]
        target = next((behind for label, behind in reversed(self.scopes) if label == wanted), None)
        if target is None:
            raise CompileError(f"{self.kernel.name}: leave of {wanted!r}, which is not around it")
        self.jump(target, f"dead{self.fresh_number()}")

    # -- functions --------------------------------------------------------------------------

    def function_symbol(self, name: str) -> str:
        """Return the symbol of a function of the kernel."""
        return f"{self.kernel.name}__{name}"

    def result_type(self, function: Function) -> str:
        """Return the LLVM return type of a function."""
        return struct_type([self.type_of(kind) for kind in function.results])

    def functions(self) -> None:
        """Emit all functions of the kernel."""
        for function in self.kernel.functions:
            self.function(function)

    def function(self, function: Function) -> None:
        """Emit an internal LLVM function for a function that the kernel calls."""
        parts = []
        for value in function.parameters:
            name = f"%arg.{value.name}"  # no local value has this name
            parts.append(f"{self.type_of(value.type)} {name}")
            self.environment[value] = Item(name)
        parts += [f"{kind} %context.{k}" for k, (kind, _) in enumerate(self.context)]
        result = self.result_type(function)
        self.lines.append(f"define internal {result} @{self.function_symbol(function.name)}({', '.join(parts)}) #0 {{")
        self.start_label("entry")
        self.reserve_allocas()
        given = self.block(function.body)
        texts = [(self.type_of(kind), "poison") for kind in function.results]
        if given:
            texts = [(self.type_of(v.type), self.scalar_of(v)) for v in given]
        self.close_function(f"ret {result} {self.packed(texts)}".rstrip())

    def call_function(self, operation: Operation) -> None:
        """Emit a call to a function of the kernel."""
        name = operation.attributes["function"]
        function = next((f for f in self.kernel.functions if f.name == name), None)
        if function is None:
            raise CompileError(f"{self.kernel.name} has no function {name!r}")
        arguments = [f"{self.type_of(v.type)} {self.scalar_of(v)}" for v in operation.operands]
        arguments += [f"{kind} {text}" for kind, text in self.context]
        result = self.result_type(function)
        call = f"call {result} @{self.function_symbol(name)}({', '.join(arguments)})"
        self.set_results(operation, result, self.append(result, call))
