"""Assembly of PTX and disassembly of machine code, without a CUDA driver.

The tools are nvJitLink, nvdisasm and cuobjdump.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from weft.runtime.cache import key_material, obtain_entry
from weft.runtime.cuda.foreign_code import foreign_objects, needs_link_time_optimization
from weft.runtime.cuda.toolkit import find_tool
from weft.runtime.errors import CompileError, MissingAssemblerError
from weft.runtime.object_code import REGISTER_AIMS, ObjectCode

# CUDA version -> the newest PTX version that its driver accepts, as LLVM writes versions (80 is PTX 8.0).
PTX_VERSIONS = {
    (12, 0): 80,
    (12, 1): 81,
    (12, 2): 82,
    (12, 3): 83,
    (12, 4): 84,
    (12, 5): 85,
    (12, 7): 86,
    (12, 8): 87,
    (12, 9): 88,
    (13, 0): 90,
}
MISSING = "nvJitLink cannot be used ({}): pip install 'weft[cuda13]'"


def newest_ptx(driver: tuple[int, int]) -> int:
    """Return the newest PTX version that a CUDA driver supports. The tuple `driver` is the driver's CUDA version, such as (12, 4)."""
    return max((ptx for version, ptx in PTX_VERSIONS.items() if version <= driver), default=min(PTX_VERSIONS.values()))


def load_nvjitlink() -> tuple[Any, type[Exception]]:
    """Return the module ``cuda.core`` and nvJitLink's exception class. The module uses nvJitLink to link code.

    Raises MissingAssemblerError if nvJitLink is missing, since cuda.core would then use the driver.
    """
    try:
        nvjitlink = import_module("cuda.bindings.nvjitlink")
        nvjitlink.version()
        return import_module("cuda.core"), nvjitlink.nvJitLinkError
    except (ImportError, RuntimeError) as error:
        raise MissingAssemblerError(MISSING.format(error)) from None


def obtain_cubin(code: ObjectCode, arch: str) -> ObjectCode:
    """Return the machine code of a PTX kernel for an architecture. Raises CompileError as `assemble` does."""
    # the assembler's version is not in the key: code that ran before continues to run
    links = tuple(code.launch.get("links", ()))
    key = key_material(f"cubin {arch}" + (f" with {' '.join(links)}" if links else ""), code.code.decode())
    return obtain_entry(key, lambda: assemble(code.code, arch, links))


def assemble(ptx: bytes, arch: str, links: tuple[str, ...] = ()) -> ObjectCode:
    """Assemble PTX to a cubin for an architecture, and link it with foreign code.

    If the PTX lists register limits, the first limit without spills is used, or no limit if there is none. The cubin's
    `launch` data contain ``registers``, ``spills``, ``stack`` and ``shared``. Raises CompileError, with the
    assembler's log, if the PTX is rejected, or if nvJitLink is missing.
    """
    for text in _with_limits(ptx):
        code = _assemble(text, arch, links)
        if not code.launch["spills"]:
            break
    return code


def _with_limits(ptx: bytes) -> Iterator[bytes]:
    """Yield a copy of the PTX for each register limit, and one without a limit.

    A comment in the PTX lists the limits. Without this comment, only the PTX itself is yielded.
    """
    note = re.search(rb"^%s([\d ]+)$" % REGISTER_AIMS.encode(), ptx, re.MULTILINE)
    if note is not None:
        for limit in note[1].split():
            yield _LIMIT.sub(b".maxnreg " + limit, ptx)
        ptx = _LIMIT.sub(b"", ptx)
    yield ptx


_LIMIT = re.compile(rb"\.maxnreg \d+")


def _assemble(ptx: bytes, arch: str, links: tuple[str, ...]) -> ObjectCode:
    core, refusal = load_nvjitlink()
    others = foreign_objects(core, links, arch)
    try:
        whole = needs_link_time_optimization(links) or None
        options = core.LinkerOptions(arch=arch, verbose=True, link_time_optimization=whole)
        linker = core.Linker(core.ObjectCode.from_ptx(ptx, name="kernel.ptx"), *others, options=options)
        cubin = linker.link("cubin").code
    except refusal as error:
        raise CompileError(f"nvJitLink refused the PTX for {arch}: {str(error).strip()}") from None
    entry = re.search(rb"\.entry\s+(\w+)", ptx)
    notes = linker.get_info_log()
    return ObjectCode("cubin", entry[1].decode() if entry else "", cubin, arch, (), (), read_resources(notes))


def read_resources(log: str) -> dict[str, int]:
    """Return the number of registers and the bytes of spills, stack and shared memory from the assembler's log."""

    def number(pattern: str) -> int:
        # both assembling and linking report the number
        return max((int(n) for n in re.findall(pattern, log)), default=0)

    return {
        "registers": number(r"Used (\d+) registers"),
        "spills": number(r"(\d+) bytes spill stores"),
        "stack": number(r"(\d+) bytes stack frame"),
        "shared": number(r"(\d+) bytes smem"),
    }


def disassemble(cubin: bytes) -> str:
    """Return the machine instructions of a cubin as text.

    Raises CompileError if neither nvdisasm nor cuobjdump is found, or if the tool fails.
    """
    for tool, options in (("nvdisasm", ["-c"]), ("cuobjdump", ["-sass"])):
        path = find_tool(tool)
        if path is None:
            continue
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            done = subprocess.run([path, *options, file.name], capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileError(f"{tool} failed: {done.stderr.strip()}")
        return done.stdout
    raise CompileError("neither nvdisasm nor cuobjdump was found: pip install nvidia-cuda-nvdisasm")
