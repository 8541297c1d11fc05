"""A context manager that enables native code for recording only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from weft.dsl.arrays import native_operators
from weft.dsl.arrays.array import Array, Scalar
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.functions.own_names import OWN, OwnNames
from weft.dsl.immediate import native_immediate


@contextmanager
def recording_in_native_code() -> Iterator[None]:
    """Within the ``with`` block, record in native code, and execute small operations in Python code."""
    before = {kind: dict(vars(kind)) for kind in (Array, Scalar, UFunc)}
    functions = {name: OWN[name] for name in OWN.at_once}
    recorder = OWN.recorder
    for (kind, name), (_, function) in native_immediate.INSTALLED.items():
        if kind is OwnNames:
            OWN.replace({name: function})
        else:
            setattr(kind, name, function)
    try:
        with (
            mock.patch.object(native_operators, "INSTALLED", {}),
            mock.patch.object(native_immediate, "install_native_code", lambda *_: None),
        ):
            native_operators.install_native_code()
            yield
    finally:
        OWN.replace(functions)
        OWN.recorder = recorder
        for (kind, name), (builtin, _) in native_immediate.INSTALLED.items():
            if kind not in before and kind is not OwnNames:
                setattr(kind, name, builtin.method())
        for kind, members in before.items():
            for name, member in members.items():
                if vars(kind)[name] is not member:
                    setattr(kind, name, member)
