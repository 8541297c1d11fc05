"""The architecture rules, as functions that return violations.

Each rule returns one line per violation. Tests check that the rules find deliberate violations (`test_rules.py`), and
that the project has none, or at most a given number, which may only decrease (`test_project.py`).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

LAYERS = ("runtime", "codegen", "fusion", "dsl")  # lowest first
WALLS = {
    "llvmlite": ("codegen/llvm/", "runtime/cpu/"),
    "cuda": ("runtime/cuda/",),
    "nvmath": ("runtime/cuda/",),
    "sympy": ("fusion/graph/symbolic.py",),
}
# Folders of tests of several layers, and folders of test utilities.
BESIDE_LAYERS = "arch benchmarks clients conformance docs fuzz golden gpu oracle stand_in".split()
# Modules that packages import before they define their public names.
BEFORE_FACES = {"weft.runtime.lazy_names"}


@dataclass(frozen=True)
class Import:
    """An import in a file: the module, the imported name, and the line.

    `hidden`: inside a function. `named`: by a call of ``import_module`` or ``__import__``. `typing`: for type checkers.
    """

    file: str
    line: int
    module: str
    name: str = ""
    hidden: bool = False
    named: bool = False
    typing: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}{'.' + self.name if self.name else ''}"


class Tree:
    """The parsed source files of all layers."""

    def __init__(self, root: Path, layers: tuple[str, ...] = LAYERS) -> None:
        self.root = root
        self.layers = layers
        self.paths = [p for layer in layers for p in sorted((root / layer).rglob("*.py"))]
        self.files = {str(p.relative_to(root)): p for p in self.paths}
        self.parsed = {name: ast.parse(p.read_text()) for name, p in self.files.items()}
        self.modules = {module_of(name): name for name in self.files}

    @cached_property
    def imports(self) -> list[Import]:
        return [found for name, tree in self.parsed.items() for found in _imports(name, tree)]

    def target(self, found: Import) -> str:
        """Return the name of the module that an import loads, which may be a submodule."""
        inner = f"{found.module}.{found.name}"
        return inner if inner in self.modules else found.module


def module_of(file: str) -> str:
    return "weft." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imports(file: str, tree: ast.Module) -> Iterator[Import]:
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def visit(node: ast.AST, hidden: bool, typing: bool) -> Iterator[Import]:
        hidden = hidden or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        checked = node.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) else ()
        for child in ast.iter_child_nodes(node):
            inner = typing or child in checked
            match child:
                case ast.Import():
                    for alias in child.names:
                        yield Import(file, child.lineno, alias.name, "", hidden, False, inner)
                case ast.ImportFrom(module=str() as module, level=0):
                    for alias in child.names:
                        yield Import(file, child.lineno, module, alias.name, hidden, False, inner)
                case ast.ImportFrom():
                    raise SyntaxError(f"{file}:{child.lineno}: a relative import")
                case ast.Call(
                    func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                    args=[first, *_],
                ):
                    # (For an f-string, its constant parts; for a name, the text that the file assigns to it.)
                    computed = isinstance(first, ast.JoinedStr)
                    first = constants.get(first.id, first) if isinstance(first, ast.Name) else first
                    for text in ast.walk(first):
                        if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value.strip("."):
                            module, name = text.value.strip("."), "*" if computed else ""
                            yield Import(file, child.lineno, module, name, hidden, True, inner)
            yield from visit(child, hidden, inner)

    yield from visit(tree, False, False)


def upward(tree: Tree) -> list[str]:
    """Return the imports that violate one of two rules. A file may not import a higher layer, and must write ``weft.`` before each layer's name."""
    wrong = []
    for found in tree.imports:
        parts = found.module.split(".")
        if parts == ["weft"]:
            parts = ["weft", found.name]
        above = parts[0] == "weft" and parts[1:2] and parts[1] in tree.layers
        own = tree.layers.index(found.file.split("/")[0])
        if parts[0] in tree.layers or (above and tree.layers.index(parts[1]) > own):
            wrong.append(str(found))
    return wrong


def walls(tree: Tree) -> list[str]:
    """Return the imports of third-party packages in files that may not import them."""
    return [
        str(found)
        for found in tree.imports
        if (files := WALLS.get(found.module.split(".")[0])) and not found.file.startswith(files)
    ]


def circles(tree: Tree) -> list[str]:
    """Return the groups of modules that import each other in a cycle.

    Imports inside functions count. Imports for type checkers only do not, nor do imports of modules whose names the
    program computes, since a table of modules is loaded on first use.
    """
    edges: dict[str, set[str]] = {module: set() for module in tree.modules}
    for found in tree.imports:
        own, parts = module_of(found.file), tree.target(found).split(".")
        for k in range(2, len(parts) + 1):
            outer = ".".join(parts[:k])
            # (The packages that contain a file are loaded before the file.)
            if (
                not found.typing
                and found.name != "*"
                and outer in edges
                and (k == len(parts) or not f"{own}.".startswith(f"{outer}."))
            ):
                edges[own] |= {outer} - {own}
    return [" <-> ".join(sorted(group)) for group in _components(edges) if len(group) > 1]


def _components(edges: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of a graph, by Kosaraju's algorithm."""
    back: dict[str, set[str]] = defaultdict(set)
    for start, ends in edges.items():
        for end in ends:
            back[end].add(start)
    order = _finished(edges, edges)
    groups, seen = [], set[str]()
    for start in reversed(order):
        group = set(_finished(back, [start], seen))
        groups += [group] if group else []
    return groups


def _finished(edges: dict[str, set[str]], starts: Iterable[str], seen: set[str] | None = None) -> list[str]:
    """Return the nodes that are reachable from `starts`, in postorder.

    The search does not enter nodes in `seen`. It adds the nodes that it returns to `seen`.
    """
    seen, left = set() if seen is None else seen, []
    for start in starts:
        stack = [(start, False)]
        while stack:
            node, done = stack.pop()
            if done:
                left.append(node)
            elif node not in seen:
                seen.add(node)
                stack += [(node, True), *((end, False) for end in edges.get(node, ()))]
    return left


def faces(tree: Tree) -> list[str]:
    """Return the imports of a layer's submodules by other layers.

    These should import the layer's package (its face) instead.
    """
    wrong = []
    for found in tree.imports:
        parts = found.module.split(".")
        deep = parts[0] == "weft" and len(parts) > 2 and parts[1] in tree.layers
        if deep and parts[1] != found.file.split("/")[0] and found.module not in BEFORE_FACES:
            wrong.append(str(found))
    return wrong


def hidden(tree: Tree) -> list[str]:
    """Return the hidden imports of weft modules. An import is hidden if its statement is inside a function."""
    own = {
        (f.file, f.line): str(f) for f in tree.imports if f.hidden and not f.named and f.module.split(".")[0] == "weft"
    }
    return list(own.values())


def seams(tree: Tree) -> list[str]:
    """Return the seams: imports that load a weft module by its name as text, with ``import_module`` or ``__import__``."""
    return [str(f) for f in tree.imports if f.named and f.module.split(".")[0] == "weft"]


def long_files(tree: Tree, most: int) -> list[str]:
    return [name for name, path in tree.files.items() if len(path.read_text().splitlines()) > most]


def long_functions(tree: Tree, most: int) -> list[str]:
    return [
        f"{name}: {node.name} has {length} lines"
        for name, parsed in tree.parsed.items()
        for node in ast.walk(parsed)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (length := (node.end_lineno or 0) - node.lineno + 1) > most
    ]


def shared_class_names(tree: Tree) -> list[str]:
    """Return the public class names that more than one file defines."""
    found = defaultdict(list)
    for name, parsed in tree.parsed.items():
        for node in parsed.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    return [f"{name}: {', '.join(files)}" for name, files in found.items() if len(files) > 1]


def shared_file_names(tree: Tree) -> list[str]:
    """Return the file names, except ``__init__.py``, that occur more than once in a layer."""
    found = defaultdict(list)
    for name, path in tree.files.items():
        if path.name != "__init__.py":
            found[name.split("/")[0], path.name].append(name)
    return [", ".join(files) for files in found.values() if len(files) > 1]


def nameless_files(tree: Tree) -> list[str]:
    """Return the files with names that do not describe any contents, such as ``utils.py``."""
    forbidden = {"utils.py", "core.py", "base.py", "misc.py", "helpers.py", "common.py"}
    return [name for name, path in tree.files.items() if path.name in forbidden]


def readers_of_the_environment(tree: Tree) -> list[str]:
    return [name for name, path in tree.files.items() if "os.environ" in path.read_text()]


def misplaced_tests(tree: Tree) -> list[str]:
    """Return unknown folders of tests, and test files that are not in the folder of their source file."""
    beside = {"__pycache__", *tree.layers, *BESIDE_LAYERS}
    wrong = [
        f"tests/{p.name}"
        for p in sorted((tree.root / "tests").iterdir())
        if p.name not in beside and any(p.glob("*.py"))
    ]
    folders = defaultdict(set)
    for name, path in tree.files.items():
        folders[name.split("/")[0], path.stem].add(name.rpartition("/")[0])
    for layer in tree.layers:
        for path in sorted((tree.root / "tests" / layer).rglob("test_*.py")):
            folder = str(path.parent.relative_to(tree.root / "tests"))
            named = folders[layer, path.stem.removeprefix("test_")]
            if not (tree.root / folder).is_dir() or (named and folder not in named):
                wrong.append(f"tests/{folder}/{path.name}")
    return wrong
