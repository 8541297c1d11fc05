"""SSA webs: separate variables for unrelated uses of a local name.

In: the syntax tree of a function. Out: for every node that binds or reads a local name, the number of its variable. If
a name has two unrelated uses, the two variables may have different types. Invariant: two definitions that reach a
common use are one variable. A name that an inner function uses is one variable everywhere. If the definitions of a
variable have several types, the variable can be split into parts: one for each set of definitions that reach a use.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

# Reaching definitions at a point of the function: name -> definitions.
State = dict[str, frozenset[int]]


@dataclass(slots=True)
class Webs:
    """The local variables of a function.

    `names` are the local names. `of` maps ``id(node)`` of a name, argument, inner function or pattern to a variable's
    number. For the read of a name by an augmented assignment, the key is ``(id(node), "read")``. `shared` maps the
    names that inner functions use to the numbers of their variables.

    A variable in `splits` can be split if its assignments have several types. Its parts are the sets of assignments that
    reach a use. A use reads one part, and an assignment writes to all parts that contain it, as `parts` lists.
    """

    names: frozenset[str]
    of: dict[object, int] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    splits: frozenset[int] = frozenset()
    parts: dict[object, tuple[frozenset[int], ...]] = field(default_factory=dict)


def find_webs(function: ast.FunctionDef | ast.Lambda) -> Webs:
    """Return the local variables of a function as SSA webs."""
    return _Flow(function).run()


def carried_variables(function: ast.FunctionDef | ast.Lambda, loop: ast.For, webs: Webs) -> set[int]:
    """Return the variables that an iteration of a loop may read before it assigns them. Variables are identified by the numbers that `webs` gives them."""
    flow = _Flow(function)
    flow.breaks.append([])
    flow.continues.append([])
    before = -1  # stands for the definitions that precede the iteration
    state = flow._target(loop.target, {name: frozenset((before,)) for name in flow.names})
    flow._body(loop.body, state)
    return {webs.of[key] for key, reaching in flow.uses.items() if before in reaching and key in webs.of}


def own_nodes(function: ast.FunctionDef | ast.Lambda) -> Iterable[ast.AST]:
    """Yield the syntax nodes in the body of a function, without those inside nested functions."""
    body = function.body if isinstance(function.body, list) else [function.body]
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(node))


def parameters_of(function: ast.FunctionDef | ast.Lambda) -> list[ast.arg]:
    """Return the parameters of a function, without ``*args`` and ``**kwargs``."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def bound_names(function: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """Return the local names of a function: its parameters, and the other names that it binds.

    Names that are declared as nonlocal or global are not included.
    """
    starred = filter(None, (function.args.vararg, function.args.kwarg))
    names = {argument.arg for argument in (*parameters_of(function), *starred)}
    outside: set[str] = set()
    for node in own_nodes(function):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.Nonlocal(names=found) | ast.Global(names=found):
                outside.update(found)
    return frozenset(names - outside)


class _Flow:
    def __init__(self, function: ast.FunctionDef | ast.Lambda) -> None:
        self.function = function
        self.names = bound_names(function)
        self.parent: list[int] = []  # union-find over definitions
        self.definition: dict[object, int] = {}  # binding key -> definition
        self.uses: dict[object, frozenset[int]] = {}
        self.whole: dict[str, int] = {}  # names that inner functions use, with one definition for all uses
        self.breaks: list[list[State]] = []
        self.continues: list[list[State]] = []

    def run(self) -> Webs:
        """Analyze the function's data flow, and return the function's variables."""
        for node in own_nodes(self.function):
            if isinstance(node, (ast.FunctionDef, ast.Lambda)):
                inner = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                inner |= {x for n in ast.walk(node) if isinstance(n, ast.Nonlocal) for x in n.names}
                for name in (inner & self.names) - bound_names(node):
                    self.whole.setdefault(name, self._new())
        state: State | None = {}
        starred = filter(None, (self.function.args.vararg, self.function.args.kwarg))
        for argument in (*parameters_of(self.function), *starred):
            state = self._define(state, id(argument), argument.arg)
        if isinstance(self.function, ast.Lambda):
            self._expression(self.function.body, state)
        else:
            self._body(self.function.body, state)
        for reaching in self.uses.values():
            first, *rest = sorted(reaching)
            for other in rest:
                self._union(first, other)
        webs = {key: self._find(d) for key, d in self.definition.items()}
        webs |= {key: self._find(min(reaching)) for key, reaching in self.uses.items()}
        shared = {name: self._find(d) for name, d in self.whole.items()}
        sets: dict[int, dict[frozenset[int], None]] = {}  # the parts of every variable, in the order of their uses
        for key, reaching in self.uses.items():
            sets.setdefault(webs[key], {})[reaching] = None
        splits = frozenset(number for number, found in sets.items() if len(found) > 1)
        parts = {
            key: tuple(found for found in sets[webs[key]] if d in found)
            for key, d in self.definition.items()
            if webs[key] in splits
        }
        parts |= {key: (reaching,) for key, reaching in self.uses.items() if webs[key] in splits}
        return Webs(self.names, webs, shared, splits, parts)

    # -- definitions ------------------------------------------------------------------------

    def _new(self) -> int:
        self.parent.append(len(self.parent))
        return len(self.parent) - 1

    def _find(self, number: int) -> int:
        while self.parent[number] != number:
            number = self.parent[number]
        return number

    def _union(self, first: int, second: int) -> None:
        first, second = sorted((self._find(first), self._find(second)))
        self.parent[second] = first

    def _define(self, state: State | None, key: object, name: str) -> State | None:
        if state is None or name not in self.names:
            return state
        number = self.definition.get(key)
        if number is None:
            number = self.definition[key] = self.whole[name] if name in self.whole else self._new()
        return {**state, name: frozenset((number,))}

    def _use(self, state: State | None, key: object, name: str) -> None:
        if state is None or name not in self.names:
            return
        reaching = frozenset((self.whole[name],)) if name in self.whole else state.get(name, frozenset())
        if reaching:
            self.uses[key] = self.uses.get(key, frozenset()) | reaching

    # -- statements -------------------------------------------------------------------------

    def _body(self, statements: list[ast.stmt], state: State | None) -> State | None:
        for statement in statements:
            state = self._statement(statement, state)
        return state

    def _statement(self, node: ast.stmt, state: State | None) -> State | None:
        match node:
            case ast.Assign(targets=targets, value=value):
                state = self._expression(value, state)
                for target in targets:
                    state = self._target(target, state)
            case ast.AugAssign(target=ast.Name(id=name) as target, value=value):
                self._use(state, (id(target), "read"), name)
                state = self._define(self._expression(value, state), id(target), name)
            case ast.AugAssign(target=target, value=value):
                state = self._expression(value, self._expression(target, state))
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    state = self._target(target, self._expression(value, state))
            case ast.If(test=test, body=body, orelse=orelse):
                state = self._expression(test, state)
                state = _merge([self._body(body, state), self._body(orelse, state)])
            case ast.While() | ast.For():
                state = self._loop(node, state)
            case ast.Match(subject=subject, cases=cases):
                state = self._match(cases, self._expression(subject, state))
            case ast.Return() | ast.Raise():
                self._expression(node, state)
                state = None
            case ast.Break() | ast.Continue():
                stack = self.breaks if isinstance(node, ast.Break) else self.continues
                if stack and state is not None:
                    stack[-1].append(state)
                state = None
            case ast.Delete(targets=targets) if state is not None:
                deleted = {target.id for target in targets if isinstance(target, ast.Name)}
                state = {name: reaching for name, reaching in state.items() if name not in deleted}
            case ast.FunctionDef(name=name):
                state = self._define(self._expression(node, state), id(node), name)
            case _:
                state = self._expression(node, state)
        return state

    def _loop(self, node: ast.While | ast.For, state: State | None) -> State | None:
        if isinstance(node, ast.For):
            state = self._expression(node.iter, state)
        entry = state
        while True:
            self.breaks.append([])
            self.continues.append([])
            inside = self._expression(node.test, entry) if isinstance(node, ast.While) else entry
            ended = inside
            if isinstance(node, ast.For):
                inside = self._target(node.target, inside)
            end = self._body(node.body, inside)
            again = _merge([state, end, *self.continues.pop()])
            breaks = self.breaks.pop()
            if again == entry:
                return _merge([self._body(node.orelse, ended), *breaks])
            entry = again

    def _match(self, cases: list[ast.match_case], state: State | None) -> State | None:
        ends: list[State | None] = []
        for case in cases:
            inside = self._pattern(case.pattern, state)
            if case.guard is not None:
                inside = self._expression(case.guard, inside)
                state = _merge([state, inside])  # if the guard is false, the names of the pattern keep their values
            ends.append(self._body(case.body, inside))
        return _merge([state, *ends])

    def _pattern(self, pattern: ast.pattern, state: State | None) -> State | None:
        if isinstance(pattern, ast.MatchOr):
            return _merge([self._pattern(option, state) for option in pattern.patterns])
        for child in ast.iter_child_nodes(pattern):
            state = self._pattern(child, state) if isinstance(child, ast.pattern) else self._expression(child, state)
        if isinstance(pattern, (ast.MatchAs, ast.MatchStar)) and pattern.name is not None:
            state = self._define(state, id(pattern), pattern.name)
        return state

    # -- expressions ------------------------------------------------------------------------

    def _target(self, node: ast.expr, state: State | None) -> State | None:
        match node:
            case ast.Name(id=name):
                return self._define(state, id(node), name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    state = self._target(part, state)
                return state
            case ast.Starred(value=value):
                return self._target(value, state)
            case _:
                return self._expression(node, state)

    def _expression(self, node: ast.AST, state: State | None) -> State | None:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                self._use(state, id(node), name)
            case ast.NamedExpr(target=target, value=value):
                return self._target(target, self._expression(value, state))
            case ast.Lambda() | ast.FunctionDef():
                for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                    state = self._expression(default, state)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                for _ in range(2):  # an item may use what an earlier item assigned
                    state = _merge([state, self._comprehension(node, state)])
            case ast.BoolOp(values=values):
                return self._until_known(values, state)
            case ast.Compare(left=left, comparators=comparators):
                return self._until_known(comparators, self._expression(left, state))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                state = self._expression(test, state)
                return _merge([self._expression(body, state), self._expression(orelse, state)])
            case _:
                for child in ast.iter_child_nodes(node):
                    state = self._expression(child, state)
        return state

    def _until_known(self, operands: list[ast.expr], state: State | None) -> State | None:
        """Analyze the operands of `and`, `or` or a comparison chain. Python skips the remaining operands as soon as the result is known."""
        ends = []
        for operand in operands:
            state = self._expression(operand, state)
            ends.append(state)
        return _merge(ends)

    def _comprehension(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp, state: State | None
    ) -> State | None:
        """Analyze one iteration of a comprehension, whose targets are not visible outside."""
        if state is None:
            return None
        inner: State | None = state
        for generator in node.generators:
            inner = self._target(generator.target, self._expression(generator.iter, inner))
            for test in generator.ifs:
                inner = self._expression(test, inner)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.comprehension):
                inner = self._expression(child, inner)
        targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        kept = {name: reaching for name, reaching in (inner or {}).items() if name not in targets}
        return kept | {name: state[name] for name in targets & state.keys()}


def _merge(states: Iterable[State | None]) -> State | None:
    live = [state for state in states if state is not None]
    if not live:
        return None
    merged: State = dict(live[0])
    for state in live[1:]:
        for name, reaching in state.items():
            merged[name] = merged.get(name, frozenset()) | reaching
    return merged
