"""Hand-written CUDA C++ programs for comparison with weft.

If nvcc is installed, it compiles `cuda_programs.cu` to a shared library, which is called with `ctypes`.

In: a program's name and its inputs. Out: a function that runs the program and waits for the device. Its results have a
method ``get()`` that copies them to NumPy. The library is built once per process, for the architecture of the device.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf

SOURCE = Path(__file__).with_name("cuda_programs.cu")
Shapes = Callable[[int], list[tuple[int, ...]]]
# Shapes of the outputs of each program as a function of its size, and the number of results. The other outputs are
# working memory.
OUTPUTS: dict[str, tuple[Shapes, int]] = {
    "axpy_chain": (lambda n: [(n,)], 1),
    "black_scholes": (lambda n: [(n,), (n,)], 2),
    "squared_differences": (lambda n: [()], 1),
    "softmax": (lambda n: [(n, n)], 1),
    "layer_norm": (lambda n: [(n, n)], 1),
    "jacobi": (lambda n: [(n, n), (n, n)], 1),
    "mandelbrot": (lambda n: [(n, n)], 1),
    "add_transposed": (lambda n: [(n, n)], 1),
    "distances": (lambda n: [(n, n)], 1),
    "vector_add": (lambda n: [(n,)], 1),
    "block_sums": (lambda n: [(-(-n // 256),)], 1),
    "n_body": (lambda n: [(n,)], 1),
    "matmul": (lambda n: [(n, n)], 1),
}


def find_nvcc() -> str | None:
    """Return the path of nvcc, or None if it is neither in PATH nor in the CUDA installation."""
    from weft.runtime import find_tool

    return shutil.which("nvcc") or find_tool("nvcc")


@lru_cache(maxsize=1)
def is_there() -> bool:
    """Return whether nvcc is installed and can build the programs.

    If building fails, the reason is printed.
    """
    if find_nvcc() is None:
        return False
    try:
        DeviceArray((1,))
    except (RuntimeError, OSError, MemoryError) as error:
        print(f"CUDA C++: left out: {error}")
        return False
    return True


@lru_cache(maxsize=1)
def library() -> Any:
    """Compile and load the programs, or raise RuntimeError if nvcc is missing or fails."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise RuntimeError("no nvcc")
    major, minor = wf.default_device().facts().capability
    with tempfile.TemporaryDirectory(prefix="weft-benchmark-") as folder:
        return ctypes.CDLL(str(build(nvcc, f"sm_{major}{minor}", Path(folder))))


def build(nvcc: str, arch: str, folder: Path) -> Path:
    """Compile the programs into a shared library, and return its path."""
    path = folder / "cuda_programs.so"
    flags = ["-O3", "--fmad=false", f"-arch={arch}", "-shared", "-Xcompiler", "-fPIC"]
    done = subprocess.run([nvcc, *flags, "-o", str(path), str(SOURCE)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"nvcc: {done.stderr.strip()[:300]}")
    return path


class DeviceArray:
    """A float32 array in device memory for the CUDA C++ programs."""

    def __init__(self, shape: tuple[int, ...], values: np.ndarray | None = None) -> None:
        code = library()
        code.device_memory.restype = ctypes.c_void_p
        self.shape = shape
        self.nbytes = 4 * int(np.prod(shape, dtype=np.int64))
        self.address = code.device_memory(ctypes.c_size_t(self.nbytes))
        if not self.address:
            raise MemoryError(f"cudaMalloc of {self.nbytes:,} bytes")
        if values is not None:
            _checked(code.to_device(_pointer(self.address), _pointer(values.ctypes.data), ctypes.c_size_t(self.nbytes)))

    def get(self) -> np.ndarray:
        """Copy the elements to the host."""
        values = np.empty(self.shape, np.float32)
        _checked(library().to_host(_pointer(values.ctypes.data), _pointer(self.address), ctypes.c_size_t(self.nbytes)))
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.get() if dtype is None else self.get().astype(dtype)

    def __del__(self) -> None:
        if getattr(self, "address", None):
            library().release(_pointer(self.address))


def _pointer(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def _checked(code: int) -> None:
    if code:
        raise RuntimeError(f"CUDA error {code}")


def prepare(name: str, inputs: tuple[np.ndarray, ...]) -> Callable[[], Any]:
    """Return a function that runs a CUDA C++ program and returns its results.

    Raises NotImplementedError if the program has no CUDA C++ version.
    """
    if name not in OUTPUTS:
        raise NotImplementedError("not written by hand")
    code = library()
    shapes, results = OUTPUTS[name]
    n = max(inputs[0].shape)
    given = [DeviceArray(x.shape, np.ascontiguousarray(x, np.float32)) for x in inputs]
    made = [DeviceArray(shape) for shape in shapes(n)]
    pointers = [(ctypes.c_void_p * len(side))(*(array.address for array in side)) for side in (given, made)]
    function = getattr(code, f"run_{name}")

    def call() -> Any:
        function(*pointers, ctypes.c_long(n))
        _checked(code.finish())
        return made[:results]

    call.keeps = given  # type: ignore[attr-defined]
    return call
