"""The disk cache of compiled loops of elementwise operations.

In: an op and its dtypes. Out: a NumPy ufunc around the loop. Invariant: the code generator is not loaded for a loop that
another process has compiled. The key of a loop contains everything that its code depends on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import weft.codegen as codegen  # (its names load when they are used)
from weft.codegen import is_bfloat16
from weft.fusion.run.reduce_arrays import compiler
from weft.runtime import ObjectCode, disk_cache, get_device, key_material, make_map_ufunc, source_digest


def obtain_loop(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Callable[..., Any]:
    """Return the compiled ufunc of an op, from the disk cache or newly compiled."""
    found = find_loop(op, loop, dtype)
    if found is None:
        function, digest = compiler().compile_map(op, loop, dtype)
        found = make_loop(function, op, loop, dtype)
        cache = disk_cache()
        if cache is not None:
            cache.put(_key(op, loop, dtype), ObjectCode("loop", digest, b"", "host", ()))
    return found


def store_loop(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> None:
    """Compile and store the loop of an op, in the second process."""
    obtain_loop(op, loop, dtype)


def find_loop(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Callable[..., Any] | None:
    """Return the compiled ufunc of an op, or None if the disk cache lacks its code."""
    cache = disk_cache()
    if cache is None or not codegen.is_host_described():
        return None
    entry = cache.get(_key(op, loop, dtype))
    function = codegen.find_function(get_device("cpu"), entry.entry) if entry is not None else None
    return None if function is None else make_loop(function, op, loop, dtype)


@cache
def _version() -> str:
    # (plans use the same digest, but loading `plan_store` takes longer)
    return codegen.code_version() + source_digest(os.path.dirname(os.path.dirname(__file__)))


def _key(op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> bytes:
    names = " ".join([kind.name for kind in (*loop, dtype)])
    return key_material(get_device("cpu").target, f"loop {_version()} {op} {names}")


def make_loop(function: Any, op: str, loop: tuple[np.dtype, ...], dtype: np.dtype) -> Callable[..., Any]:
    """Return a ufunc that calls a compiled kernel that has been loaded."""
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
