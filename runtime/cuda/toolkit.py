"""Search for components of the CUDA toolkit on this machine.

In: the environment. Out: folders, commands and libdevice. Invariant: the search order is pip's wheels, the conda
environment, CUDA_HOME (or CUDA_PATH), then the standard installation folders. The first folder that contains the
component is used. Commands are then searched for in PATH. Shared libraries are first searched for in the system.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from weft.runtime.settings import setting

SYSTEM = Path("/usr/local")
# Debian's packages
DISTRIBUTION = (Path("/usr/lib/cuda"), Path("/usr/lib/nvidia-cuda-toolkit"))
TARGETS = ("targets/x86_64-linux", "targets/sbsa-linux", "Library")


def toolkit_folders() -> list[Path]:
    """Return the folders that may contain components of the toolkit, in order of preference."""
    found = []
    for root in (*_wheels(), *_environments(), *_installed()):
        found += [folder for folder in (root, *(root / target for target in TARGETS)) if folder.is_dir()]
    return list(dict.fromkeys(found))


def _wheels() -> list[Path]:
    """Return the folders of NVIDIA's wheels, such as ``cu13`` and ``cu12``, in reverse order."""
    spec = find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    return [folder for root in roots for folder in sorted(Path(root).glob("*"), reverse=True) if folder.is_dir()]


def _environments() -> list[Path]:
    """Return the folders of conda environments, CUDA_HOME and CUDA_PATH."""
    named = [setting("conda_prefix"), sys.prefix if (Path(sys.prefix) / "conda-meta").is_dir() else ""]
    return [Path(name) for name in (*named, setting("cuda_home"), setting("cuda_path")) if name]


def _installed() -> list[Path]:
    """Return the folders of system-wide CUDA installations, such as ``/usr/local/cuda``."""
    versions = sorted(SYSTEM.glob("cuda-*"), key=_version, reverse=True)
    return [SYSTEM / "cuda", *versions, *DISTRIBUTION]


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", folder.name))


def find_tool(name: str) -> str | None:
    """Return the path of one of the toolkit's command-line tools, or None if it is not found."""
    for folder in toolkit_folders():
        path = folder / "bin" / name
        if os.access(path, os.X_OK):
            return str(path)
    return shutil.which(name)


def find_library(names: tuple[str, ...]) -> ctypes.CDLL | None:
    """Load the first shared library in `names` that is found, or return None if none is found.

    Each library is searched for in the system, then in the toolkit.
    """
    folders = [folder / part for folder in toolkit_folders() for part in ("lib", "lib64")]
    for name in names:
        for path in (name, *(str(folder / name) for folder in folders if (folder / name).exists())):
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
    return None


def find_libdevice() -> Path | None:
    """Return the path of libdevice's bitcode file, or None if it is not found."""
    for folder in toolkit_folders():
        for subfolder in ("nvvm/libdevice", "libdevice"):
            path = folder / subfolder / "libdevice.10.bc"
            if path.exists():
                return path
    return None
