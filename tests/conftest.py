"""Configuration of the tests.

Tests run on the CPU device, or on the device that ``--device`` names, and use a separate disk cache. GPU tests run in a
separate process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from weft.codegen import obtain
from weft.dsl.arrays import native_operators
from weft.fusion.plan import plan_cache
from weft.fusion.record import recording, storage, unfused_sites
from weft.fusion.run import execute
from weft.runtime import override, set_default_device
from weft.runtime.devices import _devices

_libc = ctypes.CDLL(None)
# (native recorders are not installed automatically: their own tests install and remove them)
native_operators.replacement.is_due = lambda calls: False  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _on_one_device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = _cache_folder(request.config, tmp_path_factory.getbasetemp())
    on_gpu, on_cpu = (request.node.get_closest_marker(name) is not None for name in ("gpu", "cpu"))
    set_default_device(None if on_gpu else "cpu" if on_cpu else _device(request.config.getoption("--device")))
    # tests of plans use small arrays, so immediate operations are disabled, unless the module sets IMMEDIATE; plans are
    # not read from disk, and no second process compiles them
    some = getattr(request.module, "IMMEDIATE", request.config.getoption("--immediate"))
    # discard recordings of earlier tests, and what was learned about where to cut recordings
    storage.recording.epoch = None
    for learned in (storage.limits, recording._heads, recording._misses, recording._before_small, unfused_sites.ALONE):
        learned.clear()
    with override(cache_dir=str(folder), immediate=some, interpret="never", strict=True, plans=False, background=False):
        yield
    set_default_device(None)
    _end_if_lost(request.config)


def _end_if_lost(config: pytest.Config) -> None:
    """End a parallel worker after a test that has lost a GPU.

    A new process then runs the next tests. Tests of faults lose simulated GPUs on purpose. The worker therefore goes on
    unless ``--device`` is "ptx", "cuda" or the name of a lost device.
    """
    named = _device(config.getoption("--device"))
    devices = [*_devices.values(), *([] if isinstance(named, str) else [named])]
    lost = [device for device in devices if getattr(getattr(device, "_driver", None), "lost", "")]
    if (
        lost
        and hasattr(config, "workerinput")
        and config.getoption("--device") in ("ptx", "cuda", *(d.name for d in lost))
    ):
        os._exit(1)


@pytest.fixture
def cold_cache(tmp_path: Path) -> Iterator[None]:
    """Give a test an empty cache folder, so that it can count compilations."""
    with override(cache_dir=str(tmp_path / "cache")):
        yield


@pytest.fixture(autouse=True, scope="module")
def _release_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """Free the memory that a module's tests have used.

    This includes plans, devices to which only caches refer, and cached blocks of memory pools.
    """
    yield
    execute._plans.clear()
    plan_cache._known.clear()
    found = obtain._functions._found
    kept = {*_devices, getattr(_device(request.config.getoption("--device")), "name", "")}
    others = [key for key in found if key[0] not in kept]
    for key in others:
        del found[key]  # (a function refers to its device)
    if others:
        storage.recording.epoch = None
        gc.collect()
        gc.collect()  # (the finalizers of buffers keep their device alive during the first collection)
    for device in list(_devices.values()):
        device.memory.empty()
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)  # (weft makes the C library keep freed memory)


def _cache_folder(config: pytest.Config, base: Path) -> Path:
    """Return the folder in which the processes of a test run share compiled code.

    Later runs find the code there too: its keys contain the kernel and the source of the code generator. The option
    ``--cache-clear`` removes the folder. Without pytest's cache, each run uses a separate folder.
    """
    if hasattr(config, "cache"):
        return config.cache.mkdir("weft")
    return (base.parent if hasattr(config, "workerinput") else base) / "weft-cache"


@cache
def _device(name: str) -> Any:
    """Return a simulated device for the names "stand-in" and "ptx". For other names, return the name itself."""
    if name == "stand-in":
        from tests.stand_in import RunningDevice, RunningStandIn

        return RunningDevice(RunningStandIn(4 << 30))
    if name == "ptx":
        from tests.stand_in.ptx.driver import PtxStandIn, make_ptx_device

        return make_ptx_device(PtxStandIn(4 << 30))
    return name


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")
    parser.addoption(
        "--device",
        default="cpu",
        help="where tests run that do not say it: cpu, simt, simt:sm_80; CUDA on a driver that runs host code (stand-in), PTX (ptx)",
    )
    parser.addoption(
        "--out", default="", help="a folder for what the tests on a GPU found, on which machine: --out=FOLDER"
    )
    parser.addoption("--immediate", type=int, default=0, help="elements up to which operations are done at the call")
    parser.addoption("--stand-in", action="store_true", help="run the tests for a GPU on a driver that runs PTX here")
    parser.addoption("--gpu-worker", default="", help="of the tests on a GPU themselves")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin for GPU tests. Enable Ctrl-C if a background shell has disabled it.

    If Python writes no byte code here, child processes write theirs to pytest's cache. They would otherwise compile the
    source code at each import.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.dont_write_bytecode and hasattr(config, "cache"):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(config.cache.mkdir("bytecode"))
    from tests.gpu.processes import register

    register(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a parallel worker write its stack traces to a file if it crashes.

    The main process shows the file at the end.
    """
    if hasattr(session.config, "workerinput"):
        last_words = Path(session.config.option.basetemp).with_suffix(".died").open("w")
        session.config.add_cleanup(last_words.close)
        faulthandler.enable(last_words)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    folder = config.option.basetemp or config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    for path in sorted(Path(folder).glob("*.died")):
        if words := path.read_text():
            terminalreporter.section(f"{path.stem} died")
            terminalreporter.write(words)


def pytest_collection_finish() -> None:
    """Freeze the collected tests, so that the garbage collector does not scan them."""
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without GPU tests under ``-m gpu``. A GPU machine may lack packages that these files import."""
    if config.option.markexpr != "gpu" or collection_path.suffix != ".py":
        return None
    return None if "gpu" in collection_path.read_text(encoding="utf-8") else True


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Return whether golden files should be rewritten."""
    return bool(request.config.getoption("--update-golden"))
