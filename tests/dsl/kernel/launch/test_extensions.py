"""Tests of argument extensions, launch callbacks, raw pointers, and the PTX architecture."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from weft import KernelError, cuda
from weft.runtime import override


class Wrapped:
    """An object that holds an array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


class Unwrap:
    """An extension that takes arrays out of `Wrapped`, and doubles them after the launch."""

    def prepare_args(self, kind: Any, value: Any, stream: Any, retr: list[Any]) -> tuple[Any, Any]:
        if isinstance(value, Wrapped):
            retr.append(lambda: np.multiply(value.array, 2, out=value.array))
            return cuda.types.typeof(value.array), value.array
        return kind, value


class Add:
    """An extension that adds a number to float arguments, and records the types of all arguments."""

    def __init__(self, number: float) -> None:
        self.number = number
        self.seen: list[str] = []

    def prepare_args(self, kind: Any, value: Any, stream: Any, retr: list[Any]) -> tuple[Any, Any]:
        self.seen.append(str(kind))
        return kind, value + self.number if isinstance(value, float) else value


@cuda.jit(extensions=[Unwrap()])
def importable(x: Any) -> None:
    x[0] = 1


def test_extensions_convert_arguments_from_the_last_to_the_first() -> None:
    first, last = Add(1.0), Add(10.0)

    @cuda.jit(extensions=[first, Unwrap(), last])
    def kernel(x: Any, y: Any) -> None:
        x[0] = y

    x = np.zeros(1)
    kernel[1, 1](Wrapped(x), 3.0)
    assert x[0] == 2 * 14
    assert [type(e) for e in kernel.extensions] == [Add, Unwrap, Add]
    assert first.seen == ["float64[::1]", "float64"] and last.seen == ["None", "float64"]


def test_extensions_are_pickled() -> None:
    x = np.zeros(1)
    pickle.loads(pickle.dumps(importable))[1, 1](Wrapped(x))
    assert x[0] == 2


def test_callbacks_before_launches() -> None:
    @cuda.jit
    def kernel(x: Any) -> None:
        x[0] += 1

    configured = kernel[1, 1, None]
    calls: list[Any] = []
    configured.pre_launch_callbacks.append(lambda *given: calls.append((*given, x[0])))
    x = np.zeros(1)
    configured(x)
    configured(x)
    assert calls == [(kernel, configured, 0.0), (kernel, configured, 1.0)]


def test_raw_pointers() -> None:
    @cuda.jit("void(CPointer(float64), CPointer(int32), uint32)")
    def kernel(p: Any, q: Any, n: Any) -> None:
        for i in range(n):
            p[i] = 2 * i + q[i]

    x, y = np.zeros(4), np.arange(4, dtype=np.int32)
    kernel[1, 1](x.ctypes.data, y.ctypes.data, 3)
    assert x.tolist() == [0, 3, 6, 0]
    device = cuda.to_device(np.zeros(4))
    for _ in range(2):  # (the second launch is a cached one)
        kernel[1, 1](device, cuda.to_device(y), 4)
        kernel[1, 1](device[1:], y[1:], 2)
    assert device.copy_to_host().tolist() == [0, 1, 4, 9]
    with pytest.raises(KernelError, match="No matching definition"):
        kernel[1, 1](1.5, y, 3)


def test_the_architecture_of_ptx_without_a_gpu() -> None:
    def kernel(x: Any) -> None:
        x[0] = 1

    def target(**options: Any) -> str:
        ptx, _ = cuda.compile_ptx(kernel, (cuda.float64[:],), **options)
        return next(line for line in ptx.splitlines() if line.startswith(".target"))

    with override(default_ptx_cc="9.0"):
        assert target() == ".target sm_90"
        assert target(cc=(8, 0)) == ".target sm_80"
    assert target() == ".target sm_75"
    for wrong in (90, 9.0, (9,)):
        with pytest.raises(KernelError, match=r"a tuple such as \(9, 0\)"):
            target(cc=wrong)
