"""Signatures of kernel IR operations: the types of operands and results.

The verifier checks the signatures. Each signature is one line of text.

A signature is two lists of words, for operands and for results. A word is a dtype's name, ``index`` (the kernel's
index dtype), ``pointer``, ``element`` (the pointer's element type), ``same`` (the pointer's own type), or ``x`` and
``to`` (a number or bool, of one dtype wherever the word occurs).
"""

from __future__ import annotations

import re

import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Type

SIGNATURES: dict[str, tuple[str, str]] = {
    "constant": ("", "x"),
    "cast": ("x", "to"),
    "load": ("pointer index", "element"),
    "store": ("pointer index element", ""),
    "atomic": ("pointer index element", "element"),
    "atomic_cas": ("pointer index element element", "element"),
    "fetch": ("pointer index", ""),
    "transposed": ("pointer index index index index", "pointer"),
    "offset": ("pointer index", "same"),
    "reinterpret": ("pointer", "pointer"),
    "address": ("pointer", "int64"),
    "pointer": ("int64", "pointer"),
    "thread_index": ("", "index"),
    "block_index": ("", "index"),
    "block_size": ("", "index"),
    "grid_size": ("", "index"),
    "lane_index": ("", "index"),
    "barrier": ("", ""),
    "barrier_vote": ("bool", "int32"),
    "grid_barrier": ("", ""),
    "warp_barrier": ("uint32", ""),
    "shuffle_xor": ("x", "x"),
    "shuffle": ("uint32 x int32", "x"),
    "active_mask": ("", "uint32"),
    "warp_reduce": ("uint32 x", "x"),
    "fence": ("", ""),
    "clock": ("", "int64"),
    "approximate": ("x", "x"),
    "sleep": ("uint32", ""),
    "shared": ("", "pointer"),
    "local": ("", "pointer"),
    "dynamic_shared": ("", "pointer"),
    "table": ("", "pointer"),
}

# Kinds of atomics and warp reductions -> the dtype kinds that they support.
KINDS = {
    **dict.fromkeys(("add", "subtract"), "iufc"),
    **dict.fromkeys(("minimum", "maximum", "fmin", "fmax", "exchange"), "iuf"),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), "iu"),
    **dict.fromkeys(("increment", "decrement"), "u"),
}
_REDUCTIONS = ("add", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor")
_SCOPES = ("block", "device", "system")

# (operation, attribute) -> allowed values. The first value is the default; a first value of None means that the
# attribute is required.
CHOICES: dict[tuple[str, str], tuple[object, ...]] = {
    **{(name, "axis"): (0, 1, 2) for name in ("thread_index", "block_index", "block_size", "grid_size")},
    ("atomic", "kind"): (None, *_REDUCTIONS, *("subtract", "fmin", "fmax", "exchange", "increment", "decrement")),
    ("atomic", "scope"): ("device", "block", "system"),
    ("atomic", "order"): ("monotonic", "acq_rel"),
    ("atomic_cas", "scope"): ("device", "block", "system"),
    ("fence", "scope"): (None, *_SCOPES),
    ("fence", "order"): ("seq_cst", "acq_rel"),
    ("barrier_vote", "kind"): (None, "count", "and", "or"),
    ("shuffle_xor", "mask"): (None, 1, 2, 4, 8, 16),
    ("shuffle", "mode"): (None, "idx", "up", "down", "xor"),
    ("shuffle", "width"): (32, 1, 2, 4, 8, 16),
    ("vote", "kind"): (None, "all", "any", "eq", "ballot"),
    ("match", "kind"): (None, "any", "all"),
    ("warp_reduce", "kind"): (None, *_REDUCTIONS),
    ("approximate", "function"): (None, "reciprocal", "reciprocal root"),
    ("load", "hint"): ("", "ca", "cg", "cs", "lu", "cv"),
    ("store", "hint"): ("", "wb", "cg", "cs", "wt"),
    ("load", "volatile"): (False, True),
    ("store", "volatile"): (False, True),
    ("load", "align"): (0, 1, 2, 4, 8, 16),
    ("store", "align"): (0, 1, 2, 4, 8, 16),
}

# attribute -> its type, and the operations that may have it ("": all).
ATTRIBUTES: dict[str, tuple[type, str]] = {
    "across": (bool, "for"),
    "align": (int, "load store local trace"),
    "apart": (bool, "for"),
    "axis": (int, "thread_index block_index block_size grid_size"),
    "combine": (tuple, "for"),
    "constraints": (str, "assembly"),
    "count": (int, "shared local"),
    "formats": (tuple, "print"),
    "function": (str, "approximate call"),
    "hint": (str, "load store"),
    "in_step": (bool, "repeat"),
    "index": (str, "where"),
    "kind": (str, "atomic barrier_vote match vote warp_reduce"),
    "label": (str, "scope leave"),
    "lanes": (int, "for"),
    "likely": (bool, "if"),
    "links": (tuple, "external"),
    "line": (int, ""),
    "mask": (int, "shuffle_xor"),
    "mode": (str, "shuffle"),
    "most": (int, "repeat"),
    "nowrap": (bool, ""),
    "opaque": (bool, "for"),
    "order": (str, "atomic fence"),
    "pieces": (tuple, "print"),
    "role": (str, "for"),
    "rolled": (bool, "for"),
    "scope": (str, "atomic atomic_cas fence"),
    "site": (int, "trace"),
    "size": (int, "transposed"),
    "step": (int, "for"),
    "step_from": (bool, "for"),
    "symbol": (str, "external"),
    "template": (str, "assembly"),
    "value": (np.generic, "constant"),
    "values": (np.ndarray, "table"),
    "volatile": (bool, "load store"),
    "width": (int, "shuffle"),
}


def signature_of(operation: Operation) -> tuple[str, str] | None:
    """Return the signature of an operation, or None if the operation has no fixed signature."""
    match operation.opcode, operation.attributes.get("kind"):
        case "vote", "ballot":
            return "uint32 bool", "uint32"
        case "vote", _:
            return "uint32 bool", "bool"
        case "match", "all":
            return "uint32 x", "uint32 bool"
        case "match", _:
            return "uint32 x", "uint32"
        case name, _:
            return SIGNATURES.get(name)


def signature_fault(kernel: Kernel, operation: Operation) -> str:
    """Return an error message if an operation does not match its signature and `CHOICES`, otherwise ""."""
    signature = signature_of(operation)
    if signature is not None:
        takes, gives = (words.split() for words in signature)
        if (len(takes), len(gives), 0) != (len(operation.operands), len(operation.results), len(operation.regions)):
            return f"{operation.opcode} must have {len(takes)} operands, {len(gives)} results and 0 regions"
        bound: dict[str, Type] = {}
        for word, value in zip((*takes, *gives), (*operation.operands, *operation.results), strict=True):
            fault = _type_fault(kernel, bound, word, value.type)
            if fault:
                return fault
    for (opcode, key), allowed in CHOICES.items():
        if opcode == operation.opcode:
            value = operation.attributes.get(key, allowed[0])
            if value is None or not any(value is a or (value == a and type(value) is type(a)) for a in allowed):
                return f"its {key} must be one of {', '.join(repr(a) for a in allowed if a is not None)}, not {value!r}"
    return ""


def attribute_fault(operation: Operation) -> str:
    """Return an error message if an attribute of an operation is not allowed or has the wrong type, otherwise ""."""
    for key, value in operation.attributes.items():
        kind, opcodes = ATTRIBUTES.get(key, (object, "none"))
        if opcodes and operation.opcode not in opcodes.split():
            return f"{operation.opcode} must not have the attribute {key}"
        if not isinstance(value, kind):
            return f"its {key} must be {kind.__name__}, not {type(value).__name__}"
    return ""


def _type_fault(kernel: Kernel, bound: dict[str, Type], word: str, type: Type) -> str:
    match word:
        case "pointer":
            bound[word] = type
            return "" if isinstance(type, Pointer) else "the operand must be a pointer"
        case "element":
            pointer = bound["pointer"]
            assert isinstance(pointer, Pointer)
            return "" if type == pointer.dtype else f"the value must have the pointer's dtype, {pointer.dtype}"
        case "same":
            return "" if type == bound["pointer"] else "its result must have the pointer's type"
        case "index":
            return "" if type == kernel.index_dtype else f"the index must be {kernel.index_dtype}"
        case "x" | "to":
            if isinstance(type, Pointer):
                return "the value must be a number, not a pointer"
            return "" if bound.setdefault(word, type) == type else "the dtypes of its operands and result must be equal"
        case _:
            return "" if type == np.dtype(word) else f"the value must be {word}"


# Register constraint -> characters of the dtypes that the register holds. Pointers are 64 bits wide.
_REGISTERS = {"h": "hH", "r": "iI", "l": "lLqQ", "f": "f", "d": "d"}


def assembly_fault(operation: Operation) -> str:
    """Return an error message if an operation's inline assembly is invalid, otherwise "".

    LLVM would end the process if it compiled invalid inline assembly.
    """
    template, constraints = operation.attributes["template"], operation.attributes["constraints"]
    given = [text for text in constraints.split(",") if text and text != "~{memory}"]
    values = (*operation.results, *operation.operands)
    if len(given) != len(values):
        return f"inline assembly must have {len(values)} constraints, one for each result and operand, not {len(given)}"
    for k, (text, value) in enumerate(zip(given, values, strict=True)):
        prefix = "=" if k < len(operation.results) else ""
        letters = "l" if isinstance(value.type, Pointer) else [c for c, d in _REGISTERS.items() if value.type.char in d]
        if not letters:
            return f"the operands of inline assembly must not be {value.type}"
        if text not in [prefix + letter for letter in letters]:
            return f"the constraint of operand {k} must be {prefix}{letters[0]}, not {text}"
    for number in re.findall(r"\$(\$|\d+|)", template):
        if number != "$" and (not number or int(number) >= len(values)):
            return f"${number} in the template must be an operand ($$ is a dollar sign)"
    return ""
