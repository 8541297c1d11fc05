"""Plans in the disk cache, shared between processes.

In: the key of a form, and a device. Out: the records of plans for some of the form's sizes. All records of a form are
in one cache entry, one record per line. A second entry contains the seconds lost by interpretation. Invariant: the key
contains everything that plans depend on (the form, the target, and the source text of the planner and the code
generator), so a plan of another version, machine or setting is never found. A form with an operation that has no name
outside this process, such as a user function or a closure, has no entry.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from types import FunctionType, NoneType
from typing import Any

import numpy as np

from weft.codegen import OPS, Target, code_version, find_function, streaming_threshold
from weft.fusion.graph.expr import Expr
from weft.fusion.plan.plan_records import PlanRecord
from weft.fusion.plan.steps import Shown
from weft.runtime import Device, DiskCache, ObjectCode, disk_cache, key_material, setting, source_digest

# Maximum number of records of a form, and maximum bytes of all its records. The oldest records of a form are dropped.
MOST_RECORDS = 24
MOST_BYTES = 4 << 20


def open_store(device: Device) -> DiskCache | None:
    """Return the disk cache for plans, or None if plans are neither stored nor read."""
    shown = Shown.plans or setting("verify") or setting("dump") or set(setting("debug")) - {"launch"}
    return disk_cache() if setting("plans") and not shown and device.name != "null" else None


def read(form: Any, device: Device) -> list[PlanRecord]:
    """Return the plan records in the disk cache for a graph structure, newest first.

    Records whose kernels are not all in memory or on disk are omitted.
    """
    cache = open_store(device)
    key = store_key(form, device) if cache is not None else None
    entry = cache.find(hashlib.sha256(key).hexdigest()) if cache is not None and key is not None else None
    found = []
    for text in reversed(_texts(entry)):
        try:
            record = PlanRecord.from_text(text, partial(find_function, device))
        except (ValueError, TypeError, KeyError):
            continue
        if record is not None:
            found.append(record)
    return found


def add_record(form: Any, device: Device, record: PlanRecord, nodes: Sequence[Expr]) -> None:
    """Add a plan record for the graph with the given nodes to the disk cache."""
    cache = open_store(device)
    key = store_key(form, device) if cache is not None else None
    if cache is None or key is None:
        return
    text = record.as_text(nodes)
    if len(text) > MOST_BYTES:
        return
    there = _texts(cache.find(hashlib.sha256(key).hexdigest()))
    texts = [*(one for one in there if one != text), text][-MOST_RECORDS:]
    while sum(map(len, texts)) > MOST_BYTES:
        texts.pop(0)
    cache.put(key, ObjectCode("plan", "", "\n".join(texts).encode("ascii"), device.target.name, ()))


def read_lost_seconds(form: Any, device: Device) -> float:
    """Read from disk how many seconds were lost by interpreting graphs of a given structure. Return 0 if unknown."""
    cache, key = _entry_of_lost_seconds(form, device)
    found = cache.get(key) if cache is not None else None
    return float(found.code) if found is not None and found.kind == "lost" else 0.0


def note_lost_seconds(form: Any, device: Device, seconds: float) -> None:
    """Store the seconds that were lost by interpreting graphs of a given structure."""
    cache, key = _entry_of_lost_seconds(form, device)
    if cache is not None:
        cache.put(key, ObjectCode("lost", "", f"{seconds:.4f}".encode(), device.target.name, ()))


def _entry_of_lost_seconds(form: Any, device: Device) -> tuple[DiskCache | None, bytes]:
    """Return the disk cache, and the key under which it stores the time lost so far by interpreting graphs of a given
    structure.

    Return ``(None, b"")`` if such times are not stored.
    """
    cache = open_store(device)
    key = store_key(form, device) if cache is not None else None
    return (None, b"") if key is None else (cache, key + b" lost")


def _texts(entry: ObjectCode | None) -> list[str]:
    """Return the records of a cache entry as text, oldest first."""
    return entry.code.decode("ascii").split("\n") if entry is not None and entry.kind == "plan" else []


def is_nameable(form: Any) -> bool:
    """Return whether other processes can identify a graph structure."""
    return _key_text(form) is not None


def store_key(form: Any, device: Device) -> bytes | None:
    """Return the disk cache key of a graph structure, or None if other processes cannot identify it."""
    text = _key_text(form)
    return None if text is None else _key_prefix(device.name, device.target) + hashlib.sha256(text.encode()).digest()


@lru_cache(maxsize=16)
def _key_prefix(device: str, target: Target) -> bytes:
    threshold = streaming_threshold(target)  # (not part of the target)
    sources = code_version() + source_digest(os.path.dirname(os.path.dirname(__file__)))
    return key_material(target, f"plans {threshold} {sources} {device} ")


# Kinds of expressions whose attributes are numbers, strings and bytes.
_PLAIN = frozenset(
    {"leaf", "scalar", "constant", "empty", "iota", "view", "reduce", "scan", "gather", "update", "scatter"}
)


def _key_text(form: Any) -> str | None:
    """Convert a graph structure's key to text that is the same in all processes.

    Return None if a part of the key, such as a user function, has no such text.
    """
    device, parts, *rest = form
    lines = [device, repr(rest)]
    for kind, op, operands, attrs, shape, dtype in parts:
        told: str | None = None
        if kind in _PLAIN:
            told = repr(attrs)
        elif kind == "map" and (op == "cast" or op in OPS):  # (other ops are user functions)
            told = ",".join([_dtype_name(kind) for kind in attrs])
        elif kind == "opaque":
            told = _spell_function(*attrs)
        if told is None:
            return None
        lines.append(f"{kind} {op} {operands} {told} {shape} {_dtype_name(dtype)}")
    return "\n".join(lines)


@lru_cache(maxsize=64)
def _dtype_name(dtype: np.dtype) -> str:
    return dtype.name


def _spell_function(function: Any) -> str | None:
    """Return text that identifies a function or a callable dataclass object of this package.

    Return None for other functions, and for dataclasses with values that are not `_is_plain`.
    """
    named = function if type(function) is FunctionType else type(function)
    module, name = named.__module__, named.__name__
    if not module.startswith("weft.") or getattr(sys.modules.get(module), name, None) is not named:
        return None
    if named is function:
        return f"{module}.{name}"
    if not is_dataclass(named):
        return None
    values = {field.name: getattr(function, field.name) for field in fields(named)}
    return f"{module}.{name}({values})" if all(map(_is_plain, values.values())) else None


def _is_plain(value: Any) -> bool:
    """Return whether a value is a str, an int, None, or a tuple of such values."""
    return isinstance(value, (str, int, NoneType)) or (isinstance(value, tuple) and all(map(_is_plain, value)))
