"""Control-flow graphs of byte code. Copies of code that CPython's compiler has made are merged with the originals.

CPython copies the test of a `while` loop to the loop's end. It also replaces a jump to a short end of a function with a
copy of that end. Two instructions are equivalent if they are the same and their successors are equivalent. Invariant:
an edge is moved between equivalent instructions only, so every path keeps its instructions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from weft.dsl.kernel.language.byte_code.instructions import CodeInstruction, Unreadable

# instruction -> numbers of values that it pops and pushes, as a function of its argument
EFFECTS: dict[str, Callable[[Any], tuple[int, int]]] = {
    **dict.fromkeys(("load", "load_global", "constant", "assertion", "null"), lambda _: (0, 1)),
    **dict.fromkeys(("store", "store_global", "pop", "return", "branch", "extend", "append"), lambda _: (1, 0)),
    **dict.fromkeys(("delete", "jump"), lambda _: (0, 0)),
    **dict.fromkeys(
        "attribute negative positive invert not convert list_to_tuple yield iterator and or choice".split(),
        lambda _: (1, 1),
    ),
    **dict.fromkeys(("subscript", "binary", "compare", "function_attribute", "chain"), lambda _: (2, 1)),
    "call_star": lambda _: (3, 1),
    **dict.fromkeys(("tuple", "list", "set", "string", "slice"), lambda n: (n, 1)),
    "map": lambda n: (2 * n, 1),
    "key_map": lambda keys: (len(keys), 1),
    "store_attribute": lambda _: (2, 0),
    "delete_attribute": lambda _: (1, 0),
    "store_subscript": lambda _: (3, 0),
    "delete_subscript": lambda _: (2, 0),
    "unpack": lambda n: (1, n),
    "call": lambda a: (a[0] + 2, 1),
    "format": lambda a: (2 if a and a[1] else 1, 1),
    "function": lambda a: (bin(a[1]).count("1"), 1),
    "raise": lambda n: (n, 0),
}

Flags = tuple[int | None, ...]  # for each value on the stack: index of the instruction that made the iterator, or None


@dataclass(slots=True, eq=False)
class CodeBlock:
    """A basic block: straight-line instructions, and the numbers of the successor blocks.

    `kinds` are the equivalence classes of the instructions. A `pending` block begins inside an expression. A block that
    `leaves` a `for` loop ends where it drops the loop's iterator.
    """

    body: list[CodeInstruction]
    after: list[int]
    kinds: list[int]
    pending: bool
    leaves: bool


def argument_key(value: Any) -> Any:
    """Return a hashable key for an instruction's argument, with different keys for 1, 1.0 and True."""
    if isinstance(value, tuple):
        return tuple(argument_key(v) for v in value)
    if isinstance(value, frozenset):
        return frozenset(argument_key(v) for v in value)
    if isinstance(value, slice):
        return "slice", argument_key((value.start, value.stop, value.step))
    if hasattr(value, "co_code"):
        return value.co_name, value.co_code
    return type(value), repr(value)


def entry_of(code: list[CodeInstruction]) -> int:
    """Return the index of the first executed instruction other than a jump."""
    return code[0].after[0] if code[0].name == "jump" else 0


def classes_of(code: list[CodeInstruction]) -> list[int]:
    """Return a number for each instruction. Two instructions have the same number if the code that runs from there on is the same."""
    keys = [(i.name, argument_key(i.argument)) for i in code]
    count = 0
    while True:
        numbers: dict[Any, int] = {}
        classes = [numbers.setdefault(key, len(numbers)) for key in keys]
        if len(numbers) == count:
            return classes
        count = len(numbers)
        keys = [(classes[k], *(classes[a] for a in i.after)) for k, i in enumerate(code)]  # type: ignore[misc]


def stacks_of(code: list[CodeInstruction]) -> dict[int, Flags]:
    """Return a description of the stack before each reachable instruction.

    A loop's iterator on the stack is described by the index of the instruction that created it, and any other value by
    None.
    """
    start = entry_of(code)
    found: dict[int, Flags] = {start: ()}
    work = deque([start])
    while work:
        number = work.popleft()
        instruction = code[number]
        for k, following in enumerate(instruction.after):
            flags = _step(instruction, number, found[number], exhausted=k == 1)
            if following not in found:
                found[following] = flags
                work.append(following)
    return found


def _step(instruction: CodeInstruction, number: int, flags: Flags, exhausted: bool) -> Flags:
    name, argument = instruction.name, instruction.argument
    if name == "copy":
        return (*flags, flags[-argument])
    if name == "swap":
        new = list(flags)
        new[-1], new[-argument] = new[-argument], new[-1]
        return tuple(new)
    if name == "next":
        return flags[:-1] if exhausted else (*flags, None)
    if name == "iterator":
        return (*flags[:-1], number)
    if name == "load" and argument == ".0":
        return (*flags, number)
    taken, given = EFFECTS[name](argument)
    if taken > len(flags):
        raise Unreadable("a value on the stack is not followed", instruction.where.lineno)
    return flags[: len(flags) - taken] + (None,) * given


def merge_copies(code: list[CodeInstruction]) -> list[int]:
    """Redirect jumps so that they reach the original code, not the duplicates that CPython makes.

    Return the equivalence classes of the instructions, as `classes_of` does.
    """
    classes, stacks = classes_of(code), stacks_of(code)
    _merge_tests(code, classes, stacks)
    _merge_ends(code, classes, stacks_of(code))
    return classes


def _redirect(code: list[CodeInstruction], old: int, new: int) -> None:
    for instruction in code:
        instruction.after = [new if a == old else a for a in instruction.after]


def _merge_ends(code: list[CodeInstruction], classes: list[int], stacks: dict[int, Flags]) -> None:
    """Merge the identical ends of a function. CPython's compiler creates them: it copies a short end instead of jumping to it."""
    exhausted = {stacks[k][-1]: code[k].after[1] for k in stacks if code[k].name == "next" and stacks[k]}
    pending: dict[tuple[int, Flags], int] = {}
    for number in sorted(stacks):
        instruction, flags = code[number], stacks[number]
        if instruction.name == "pop" and flags[-1] is not None:  # `break`
            following = instruction.after[0]
            for other in reachable(code, exhausted.get(flags[-1])):
                if classes[other] == classes[following] and stacks.get(other) == stacks[following]:
                    instruction.after = [other]
                    break
    for leader in _leaders(code, stacks):
        if not _is_pending(stacks[leader]):
            continue
        # The expression adds one value to the stack, or none if it first drops one.
        depth = len(stacks[leader]) + (code[leader].name not in ("pop", "swap"))
        for number in _straight_end(code, leader):
            if not _is_pending(stacks[number]) or len(stacks[number]) > depth:
                continue
            original = pending.setdefault((classes[number], stacks[number]), number)
            if original != number:
                _redirect(code, number, original)
                break


def _straight_end(code: list[CodeInstruction], start: int) -> list[int]:
    """Return the indices of the instructions from `start` to the function's end, or [] if there is a branch."""
    path = [start]
    while len(code[path[-1]].after) == 1 and len(path) <= len(code):
        path.append(code[path[-1]].after[0])
    return [] if code[path[-1]].after else path


def reachable(code: Any, start: int | None) -> list[int]:
    """Return the indices of the instructions or blocks that can be reached from `start`, beginning with `start`."""
    found = [] if start is None else [start]
    for number in found:
        found += [a for a in code[number].after if a not in found]
    return found


def predecessors(code: Any, numbers: Iterable[int]) -> dict[int, list[int]]:
    """Return the predecessors of instructions or basic blocks in the control flow, as a dict from each index in `numbers` to a list of indices."""
    found: dict[int, list[int]] = {number: [] for number in numbers}
    for number in found:
        for a in code[number].after:
            found[a].append(number)
    return found


def _leaders(code: list[CodeInstruction], stacks: dict[int, Flags]) -> list[int]:
    forks = {a for n in stacks if len(code[n].after) > 1 for a in code[n].after}
    joins = {n for n, before in predecessors(code, stacks).items() if len(before) > 1}
    return sorted(forks | joins | {entry_of(code)})


def _merge_tests(code: list[CodeInstruction], classes: list[int], stacks: dict[int, Flags]) -> None:
    """A `while` loop's test occurs twice in byte code, before the loop and at its end. Merge the two copies."""
    found: tuple[int, int] | None = (0, 0)
    while found is not None:
        into = predecessors(code, reachable(code, entry_of(code)))
        found = next(
            (
                start
                for header, sources in into.items()
                for late in sources
                if late >= header and into[late]
                # A copy ends with a branch, or inside an expression, whose operands are then on the stack.
                if code[late].name == "branch" or _is_pending(stacks[header])
                for early in sources
                if early < header
                and (start := _start_of_copy(code, classes, stacks, late, early)) is not None
                and into[start[0]]
            ),
            None,
        )
        if found is not None:
            _redirect(code, *found)


def _is_pending(flags: Flags) -> bool:
    """Return whether the stack contains a value other than loop iterators, such as an operand of an unfinished expression."""
    return any(flag is None for flag in flags)


def _start_of_copy(
    code: list[CodeInstruction], classes: list[int], stacks: dict[int, Flags], late: int, early: int
) -> tuple[int, int] | None:
    """Compare two expressions. If they are equal, return the indices of their first instructions, otherwise None.

    `late` and `early` are the indices of their last instructions.
    """
    while classes[late] == classes[early] and stacks[late] == stacks[early]:
        single = code[late - 1].after == [late] and code[early - 1].after == [early]
        if not (_is_pending(stacks[late]) and single):
            return late, early
        late, early = late - 1, early - 1
    return None


def blocks_of(code: list[CodeInstruction], classes: list[int]) -> dict[int, CodeBlock]:
    """Return the basic blocks as a dict, by the index of the first instruction of each block."""
    stacks = stacks_of(code)
    leaving = {n for n in stacks if code[n].name == "pop" and stacks[n][-1] is not None and not _is_pending(stacks[n])}
    leaders = {*_leaders(code, stacks), *(n for n in stacks if code[n].name == "next")}
    leaders |= {code[n].after[0] for n in leaving}
    blocks: dict[int, CodeBlock] = {}
    for leader in sorted(leaders):
        numbers = [leader]
        while len(code[numbers[-1]].after) == 1 and code[numbers[-1]].after[0] not in leaders:
            numbers.append(code[numbers[-1]].after[0])
        pending = _is_pending(stacks[leader])
        after = list(code[numbers[-1]].after)
        kinds = [classes[n] for n in numbers]
        blocks[leader] = CodeBlock([code[n] for n in numbers], after, kinds, pending, numbers[-1] in leaving)
    return blocks


def equivalent(first: list[CodeInstruction], second: list[CodeInstruction], same: Callable[[Any, Any], bool]) -> bool:
    """Return whether two functions execute the same instructions on every path."""
    work = [(entry_of(first), entry_of(second))]
    seen = set(work)
    while work:
        a, b = work.pop()
        one, two = first[a], second[b]
        if one.name != two.name or len(one.after) != len(two.after) or not same(one.argument, two.argument):
            return False
        for pair in zip(one.after, two.after, strict=True):
            if pair not in seen:
                seen.add(pair)
                work.append(pair)
    return True
