"""The settings of weft, defined in one table.

Only this module reads environment variables.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from time import monotonic
from typing import Any, NamedTuple

from weft.runtime.errors import SettingError

STAGES = ("plan", "kernel", "llvm", "asm", "launch")


class Setting(NamedTuple):
    """A setting of weft. `variable` is the setting's environment variable, if this is not ``WEFT_<NAME>``."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    doc: str
    variable: str = ""

    @property
    def env(self) -> str:
        """The environment variable of the setting."""
        return self.variable or f"WEFT_{self.name.upper()}"


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("it takes 0 or 1")
    return text == "1"


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise ValueError("it takes a whole number, 0 or more")
    return number


def _stages(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in STAGES:
            raise ValueError(f"{name!r} is no stage; the stages are {', '.join(STAGES)}")
    return names


def _choice(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"it takes {', '.join(names)}")
        return text

    return parse


TABLE = (
    Setting(
        "device",
        str,
        "",
        'default device, such as "cpu", "cuda:0", "simt" (GPU schedules on the CPU) or "null" (compilation without execution); if empty, the first GPU, or the CPU on a machine without a GPU',
    ),
    Setting("cache", _flag, True, "whether weft stores compiled kernels on disk"),
    Setting("plans", _flag, True, "whether weft stores plans on disk, in addition to compiled kernels"),
    Setting("cache_dir", str, "", "folder of the disk cache; if empty, the folder named weft in the XDG cache folder"),
    Setting("cache_size", _count, 512 << 20, "maximum size of the disk cache in bytes"),
    Setting(
        "immediate",
        _count,
        32768,
        "maximum number of elements for which operations in host memory are executed immediately; 0 disables immediate execution; weft reads this variable only when it is imported",
    ),
    Setting("debug", _stages, (), f"comma-separated list of stages to print: {', '.join(STAGES)}"),
    Setting("dump", str, "", "folder to which weft writes the output of every stage for each kernel"),
    Setting(
        "weak_scalars",
        _flag,
        False,
        "whether Python numbers in weft.cuda kernels follow NumPy's type promotion rules instead of Numba's",
    ),
    Setting("checked", _flag, False, "whether kernels check the bounds of every index"),
    Setting("sanitize", _flag, False, "whether the sanitizer runs kernels on the CPU and checks every memory access"),
    Setting("kernel_python", _flag, False, "whether kernels run as plain Python code, for use with a debugger"),
    Setting(
        "default_ptx_cc",
        str,
        "",
        "compute capability of PTX that is compiled without a GPU, such as 9.0; empty: 7.5",
        "NUMBA_CUDA_DEFAULT_PTX_CC",
    ),
    Setting(
        "progress",
        _flag,
        True,
        "whether the terminal shows a progress line for compilations that last longer than one second",
    ),
    Setting("nvtx", _flag, False, "whether NVIDIA's profilers show launches as NVTX ranges; requires the nvtx package"),
    Setting(
        "interpret",
        _choice("auto", "always", "never"),
        "auto",
        'whether weft interprets programs that have no plan: "always", "never", or "auto" (on the CPU, until compilation would save time)',
    ),
    Setting(
        "host_fallback",
        _choice("ignore", "warn", "raise"),
        "warn",
        'response to an operation on GPU arrays that NumPy executes on the host: "ignore", "warn" (once per source line and operation), or "raise"',
    ),
    Setting(
        "strict",
        _flag,
        False,
        "whether optimizer errors raise an exception (otherwise, weft issues a warning and interprets the program) and tracebacks include weft's frames",
    ),
    Setting(
        "verify", _flag, False, "whether weft also interprets every program that has a plan, and compares the results"
    ),
    Setting(
        "background",
        _flag,
        True,
        "whether a second process compiles programs while weft interprets them; if 0, each program waits for its compilation",
    ),
    Setting(
        "threads",
        _count,
        0,
        "number of threads of the CPU device; 0 means one thread per usable core",
        "WEFT_NUM_THREADS",
    ),
    Setting(
        "graphs",
        _count,
        3,
        "number of runs after which weft converts a plan of small kernels to a CUDA graph; 0 disables CUDA graphs",
    ),
    Setting("xdg_cache", str, "", "the user's cache folder", "XDG_CACHE_HOME"),
    Setting("cuda_visible", str, None, "the GPUs that CUDA shows", "CUDA_VISIBLE_DEVICES"),
    Setting("cuda_home", str, "", "folder of a CUDA toolkit", "CUDA_HOME"),
    Setting("cuda_path", str, "", "the same, as NVIDIA's installers call it", "CUDA_PATH"),
    Setting("conda_prefix", str, "", "folder of a conda environment", "CONDA_PREFIX"),
)

# The mapping behind os.environ, which every launch reads: os.environ itself takes ten times as long to look up a
# missing variable.
_variables = getattr(os.environ, "_data", os.environ)
_encode = getattr(os.environ, "encodekey", str)
_by_name = {row.name: (row, _encode(row.env), row.default) for row in TABLE}
# The environment variables that are set, as a live view of `key_of` keys, and the settings that `override` replaces.
# Code on the path of every launch compares both with its settings, without a call.
VARIABLES = _variables.keys()
OVERRIDES: dict[str, Any] = {}


def key_of(name: str) -> Any:
    """Return the encoded name of a setting's environment variable. The set `VARIABLES` contains this name while the variable is set."""
    return _by_name[name][1]


def setting(name: str) -> Any:
    """Return the value of a setting. Raises SettingError if the environment variable has an invalid value."""
    row, key, default = _by_name[name]
    if key not in _variables and not OVERRIDES:
        return default
    if name in OVERRIDES:
        return OVERRIDES[name]
    text = os.environ.get(row.env)
    if text is None or (text == "" and row.parse is not str):
        return row.default
    try:
        return row.parse(text)
    except ValueError as error:
        raise SettingError(f"{row.env}={text!r}: {error} ({row.doc})") from None


def set_variables() -> dict[str, str]:
    """Return all ``WEFT_*`` environment variables that are set, as a dict. If a variable does not name a setting, its value includes a note."""
    import difflib  # (only reports need it)

    known = [row.env for row in TABLE]
    found = {}
    for name, text in sorted(os.environ.items()):
        if name.startswith("WEFT_"):
            similar = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean {similar[0]}?" if similar else ""
            found[name] = text if name in known else f"{text} (weft has no such setting{meant})"
    return found


def environment() -> dict[str, str]:
    """Return a copy of the environment variables for another process."""
    return dict(os.environ)


# The values of each ``with`` block of `override`. Blocks of several threads need not end in the order of their begins.
_blocks: list[dict[str, Any]] = []
_lock = RLock()
os.register_at_fork(after_in_child=lambda: globals().update(_lock=RLock()))


@contextmanager
def override(**values: Any) -> Iterator[None]:
    """Context manager that replaces the values of settings within a ``with`` block, in all threads."""
    unknown = set(values) - set(_by_name)
    if unknown:
        raise SettingError(f"no setting is called {', '.join(sorted(unknown))}")
    with _lock:
        _blocks.append(values)
        OVERRIDES.update(values)
        if "immediate" in values:
            reset_immediate()
    try:
        yield
    finally:
        with _lock:
            _blocks[:] = [block for block in _blocks if block is not values]
            for name in values:
                if others := [block[name] for block in _blocks if name in block]:
                    OVERRIDES[name] = others[-1]
                else:
                    del OVERRIDES[name]
            if "immediate" in values:
                reset_immediate()


# Number of cores of this process, and the time until which this number is valid. (A query takes 10 us while other
# threads are busy.)
_cores = (0, 0.0)
BELIEVED = 0.05


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    global _cores
    count, until = _cores
    if (now := monotonic()) >= until:
        count = len(os.sched_getaffinity(0))
        _cores = count, now + BELIEVED
    return count


def thread_count() -> int:
    """Return the number of threads of the CPU device."""
    return setting("threads") or usable_cores()


# Limit for functions whose results depend on the order of a sum. Up to this number of elements in host memory, NumPy
# executes them immediately, in its own order. (A kernel may add few elements in another order.)
_SAME_ORDER = 1 << 14
# Size limits of immediate execution, as words that native code reads at every call: the current limit, and (from index
# `FIXED`) two copies of the fixed limit. The current limit is the `immediate` setting, or a larger number while
# programs are compiled (see `raise_immediate`). The fixed limit applies to functions whose results depend on the order
# of a sum. Limits for single functions are multiples of these limits.
FIXED = 1
IMMEDIATE = array("q", [0] * 3)
# Factor of a raised limit. Up to this size, NumPy executes an operation in less time than an interpreted program.
RAISED = 4


def raise_immediate() -> None:
    """Increase the current size limit of immediate execution until `reset_immediate` is called."""
    IMMEDIATE[0] = RAISED * setting("immediate")


def reset_immediate() -> None:
    """Set the size limits of immediate execution according to the `immediate` setting."""
    fixed = min(setting("immediate"), _SAME_ORDER)
    IMMEDIATE[:] = array("q", [setting("immediate"), fixed, fixed])


def limit_on(device: str) -> int:
    """Return the maximum number of elements of an array that is created immediately.

    `device` is the name of the array's device. The array is created in host memory.
    """
    return IMMEDIATE[0 if device == "cpu" else FIXED]


reset_immediate()


# Minimum number of random numbers for which native code replaces a method of a generator.
LEAST = 1 << 13
# Number of calls between two checks whether native code should replace a Python function.
BETWEEN = 500
