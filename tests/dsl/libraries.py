"""The table of libraries that compute `numpy.linalg` and `numpy.fft`.

The table is the source of a section of `docs/functions.md`. A test compares it with the behaviour of the functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Service:
    """The names of the libraries that compute a function on a CPU and on a CUDA device.

    Attributes
    ----------
    cpu, cuda : str
        "NumPy", "NumPy on all threads", "BLAS", "cuBLAS", "cuSOLVER", "cuFFT" or "kernels" (of weft). On a CUDA device,
        "host" means NumPy on the host.
    reason : str
        Reason why the function runs on the host for a CUDA device.
    """

    cpu: str
    cuda: str
    reason: str = ""


_FOURIER = Service("NumPy on all threads", "cuFFT")
_SOLVER = Service("NumPy", "cuSOLVER")
_PRODUCT = Service("BLAS", "cuBLAS")
_KERNELS = Service("kernels", "kernels")
_NO_RESULT_TYPE = "the dtype of the result (real or complex) depends on the values"

TABLE: dict[str, dict[str, Service]] = {
    "numpy.linalg": {
        **dict.fromkeys("cholesky det eigh eigvalsh inv qr slogdet solve svd svdvals".split(), _SOLVER),
        **dict.fromkeys("cond lstsq matrix_rank pinv tensorinv tensorsolve".split(), _SOLVER),
        **dict.fromkeys("matmul matrix_power multi_dot tensordot".split(), _PRODUCT),
        **dict.fromkeys(
            "cross diagonal matrix_norm matrix_transpose norm outer trace vecdot vector_norm".split(), _KERNELS
        ),
        "eig": Service("NumPy", "host", _NO_RESULT_TYPE),
        "eigvals": Service("NumPy", "host", _NO_RESULT_TYPE),
    },
    "numpy.fft": {
        **dict.fromkeys("fft ifft rfft irfft hfft ihfft".split(), _FOURIER),
        **dict.fromkeys("fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split(), _FOURIER),
        **dict.fromkeys("fftshift ifftshift".split(), Service("NumPy", "kernels")),
        **dict.fromkeys("fftfreq rfftfreq".split(), _KERNELS),
    },
}


def describe_libraries() -> str:
    """Return the table of libraries as Markdown."""
    lines = ["| function | CPU | CUDA, with nvmath-python |", "| --- | --- | --- |"]
    for module, services in TABLE.items():
        for name, service in sorted(services.items()):
            reason = f": {service.reason}" if service.reason else ""
            lines.append(f"| `{module.removeprefix('numpy.')}.{name}` | {service.cpu} | {service.cuda}{reason} |")
    return "\n".join(lines) + "\n"


def names_of(module: str) -> set[str]:
    """Return the names of the public functions of `numpy.linalg` or `numpy.fft`."""
    namespace = {"numpy.linalg": np.linalg, "numpy.fft": np.fft}[module]
    return {name for name in namespace.__all__ if not isinstance(getattr(namespace, name), type)} - {"test"}


__all__ = ["Service", "describe_libraries", "names_of"]
