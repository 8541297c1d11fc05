"""The disk cache for compiled loops and for reduction orders.

In: an op and its dtypes, or the key of a reduction. Out: a NumPy ufunc around the loop, or a `Tree`. Invariant: the
code generator is not loaded for objects that another process has stored. Keys contain everything that the stored object
depends on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import NoneType
from typing import Any

import numpy as np

import weft.codegen as codegen  # (its names load when they are used)
from weft.codegen import is_bfloat16
from weft.fusion.graph.reduction_order import LaneLoop, Tree
from weft.runtime import (
    ObjectCode,
    disk_cache,
    get_device,
    key_material,
    make_map_ufunc,
    make_reduction_ufunc,
    source_digest,
)


@cache
def compiler() -> Any:
    """Import and return the `compiled_loops` module, which loads the code generator."""
    return import_module("weft.fusion.run.compiled_loops")


def obtain_loop(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Callable[..., Any]:
    """Return the compiled ufunc of an op, from the disk cache or newly compiled."""
    found = find_loop(op, loop, dtype)
    if found is None:
        function, digest = _compile(op, loop, dtype)
        found = make_loop(function, op, loop, dtype)
        store_function(_name_of_loop(op, loop, dtype), digest)
    return found


def _compile(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> tuple[Any, str]:
    """Compile an op for contiguous arrays, and return the loaded function and the kernel's digest."""
    device, kernel = get_device("cpu"), _make_kernel(op, loop, dtype)
    digest = codegen.kernel_digest(device.target, kernel)
    return codegen.obtain_function(device, kernel, digest), digest


def _make_kernel(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Any:
    b = codegen.KernelBuilder("primitive", np.int64)
    pointers = [
        b.pointer(f"p{k}", kind, writable=k == len(loop), align=min(kind.itemsize, 8))
        for k, kind in enumerate((*loop, dtype))
    ]
    with b.loop(b.scalar("n"), "parallel") as at:
        typed = [b.load(pointer, at.index) for pointer in pointers[:-1]]
        value = b.cast(typed[0], dtype) if op == "cast" else b.op(op, *typed, dtype=dtype)
        b.store(pointers[-1], at.index, value)
    return b.finish()


def store_loop(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> None:
    """Compile the loop of an op, and store it on disk for other processes. A background process calls this function."""
    obtain_loop(op, loop, dtype)


def find_loop(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Callable[..., Any] | None:
    """Return the compiled ufunc of an op, or None if the disk cache lacks its code."""
    found = find_function(_name_of_loop(op, loop, dtype))
    return None if found is None else make_loop(found[0], op, loop, dtype)


def obtain_reduction(op: str, kind: np.dtype, factors: int = 1) -> Any:
    """Return a generalized ufunc that reduces contiguous rows. Load its code from the disk cache, or compile the code if the cache lacks it.

    The ufunc is ``(n)->()``. With two `factors`, the ufunc ``(n),(n)->()`` reduces the products of two rows.
    """
    found = find_reduction(op, kind, factors)
    if found is None:
        function, digest, slots, indices = compiler().compile_reduction(op, kind, factors)
        found = make_reduction_ufunc(op, function, slots, indices, [kind] * (factors + 1))
        store_function(f"reduction {op} {kind.name} {factors}", digest, json.dumps([slots, indices]).encode())
    return found


def find_reduction(op: str, kind: np.dtype, factors: int = 1) -> Any:
    """Load a ufunc for a reduction from the disk cache, or return None if the cache lacks its code. `obtain_reduction` describes the ufunc."""
    found = find_function(f"reduction {op} {kind.name} {factors}")
    if found is None:
        return None
    slots, indices = json.loads(found[1])
    return make_reduction_ufunc(op, found[0], slots, indices, [kind] * (factors + 1))


def _may_find() -> bool:
    """Return whether there is a disk cache and its keys can be computed without LLVM."""
    return disk_cache() is not None and codegen.is_host_described()


def store_function(name: str, digest: str, content: bytes = b"") -> None:
    """Store an entry for a loop in the disk cache. The entry contains the digest of the loop's kernel and the bytes `content`."""
    cache = disk_cache()
    if cache is not None:
        cache.put(_key(name), ObjectCode("loop", digest, content, "host", ()))


def find_function(name: str) -> tuple[Any, bytes] | None:
    """Look up a compiled function in the disk cache by name. Return the function and the bytes stored with it, or None if it is not found."""
    cache = disk_cache()
    entry = cache.get(_key(name)) if cache is not None and _may_find() else None
    function = codegen.find_function(get_device("cpu"), entry.entry) if entry is not None else None
    return None if entry is None or function is None else (function, entry.code)


def obtain_tree(key: object, find: Callable[[], Tree]) -> Tree:
    """Return a `Tree`, the order in which a reduction combines elements. If it is not in the disk cache, call `find` and store the result.

    `key` consists of tuples, ints, strings, bytes, None and dtypes. A key with another object, such as a user function,
    has no name outside this process, and its order is not stored.
    """
    cache, name = disk_cache(), _spell(key)
    if cache is None or name is None or not _may_find():
        return find()
    material = _key(f"tree {name}")
    entry = cache.get(material)
    if entry is not None:
        pieces, outer, inner, extents, length, first, last = json.loads(entry.code)
        levels = LaneLoop(*first), LaneLoop(*last)
        return Tree(tuple(pieces), tuple(outer), tuple(inner), tuple(extents), length, *levels)
    tree = find()
    cache.put(material, ObjectCode("facts", "", json.dumps(tree).encode(), "host", ()))
    return tree


def _spell(key: Any) -> str | None:
    """Convert a key to text that is the same in all processes, or return None if that is impossible."""
    if isinstance(key, tuple):
        parts = [_spell(part) for part in key]
        return None if None in parts else f"({','.join(parts)})"  # type: ignore[arg-type]
    if isinstance(key, np.dtype):
        return key.name
    return repr(key) if isinstance(key, (int, str, bytes, NoneType)) else None


@cache
def _version() -> str:
    # (plans use the same digest, but loading `plan_store` takes longer)
    return codegen.code_version() + source_digest(os.path.dirname(os.path.dirname(__file__)))


def _name_of_loop(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> str:
    return f"loop {op} {' '.join([kind.name for kind in (*loop, dtype)])}"


def _key(name: str) -> bytes:
    """Return a cache key that depends on `name`, the machine and the source text."""
    return key_material(get_device("cpu").target, f"{_version()} {name}")


def make_loop(function: Any, op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Callable[..., Any]:
    """Return a ufunc that calls `function`, the loaded code of a kernel. For bfloat16 operands or results, return a wrapper around the ufunc."""
    dtypes = (*loop, dtype)
    shown = [np.dtype(np.uint16) if is_bfloat16(kind) else kind for kind in dtypes]
    ufunc: Callable[..., Any] = make_map_ufunc(op.lstrip("_"), function, shown)
    return ufunc if shown == list(dtypes) else _on_bits(ufunc, dtypes)


def _on_bits(ufunc: Any, dtypes: tuple[np.dtype, ...]) -> Callable[..., Any]:
    """Return a function that passes the bits of bfloat16 arrays to a ufunc as uint16."""
    brains = [is_bfloat16(kind) for kind in dtypes]

    def call(*operands: Any, out: Any = None) -> Any:
        given = [np.asarray(x).view(np.uint16) if brain else x for x, brain in zip(operands, brains, strict=False)]
        if not brains[-1]:
            return ufunc(*given, out=out)
        if out is not None:
            ufunc(*given, out=out.view(np.uint16))
            return out
        return np.asarray(ufunc(*given)).view(dtypes[-1])[()]

    return call
