"""Separately compiled code, such as CUDA C++ or PTX, that can be linked into kernels.

In: the contents of files. Out: digests that kernels carry, and inputs for the linker. Invariant: a digest names the
same contents in every process, so that a cached kernel is linked to the code for which it was compiled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from weft.runtime.errors import CompileError

ForeignKind = Literal["cu", "ptx", "cubin", "fatbin", "object", "library", "ltoir"]


@dataclass(frozen=True, slots=True)
class ForeignCode:
    """A file of separately compiled code that can be linked into kernels."""

    kind: ForeignKind
    name: str
    data: bytes

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the code's kind and contents, in hexadecimal digits."""
        return hashlib.sha256(self.kind.encode() + b"\0" + self.data).hexdigest()


_known: dict[str, ForeignCode] = {}


def register_foreign(code: ForeignCode) -> str:
    """Register code that can be linked into kernels, and return its digest."""
    _known[code.digest] = code
    return code.digest


def foreign_objects(core: Any, digests: Sequence[str], arch: str) -> list[Any]:
    """Return the registered code with the given digests, as inputs for the linker.

    Raises CompileError if CUDA C++ does not compile, or if NVRTC is missing.
    """
    return [_object(core, _known[digest], arch) for digest in digests]


def needs_link_time_optimization(digests: Sequence[str]) -> bool:
    """Return whether any of the registered code with these digests is LTO-IR."""
    return any(_known[digest].kind == "ltoir" for digest in digests)


def _object(core: Any, code: ForeignCode, arch: str) -> Any:
    if code.kind == "cu":
        return core.ObjectCode.from_cubin(_compiled(core, code, arch), name=code.name)
    return getattr(core.ObjectCode, f"from_{code.kind}")(code.data, name=code.name)


@lru_cache(maxsize=64)
def _compiled(core: Any, code: ForeignCode, arch: str) -> bytes:
    """Compile CUDA C++ to relocatable machine code with NVRTC."""
    try:
        options = core.ProgramOptions(arch=arch, relocatable_device_code=True, name=code.name)
        cubin: bytes = core.Program(code.data.decode(), "c++", options).compile("cubin").code
    except (ImportError, RuntimeError) as error:  # the library is not found
        raise CompileError(f"{code.name}: NVRTC is not installed: pip install nvidia-cuda-nvrtc ({error})") from None
    except Exception as error:  # cuda.core has no public class for the compiler's errors
        raise CompileError(f"{code.name} does not compile for {arch}:\n{str(error).strip()}") from None
    return cubin
