"""NVTX ranges for profilers, one for each launch.

A range is named after the kernel and the user's source line.

In: launches, as reported to listeners. Out: NVTX ranges in the domain ``weft``. This module needs the ``nvtx`` package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.runtime.errors import SettingError
from weft.runtime.listening import BuildNote, LaunchNote


class Ranges:
    """Listener that opens an NVTX range around each launch."""

    def __init__(self) -> None:
        try:
            import nvtx
        except ImportError:
            raise SettingError("WEFT_NVTX=1 needs the nvtx package: pip install 'weft[nvtx]'") from None
        self._nvtx: Any = nvtx

    def launch(self, device: Any, note: LaunchNote, start: Callable[[], None]) -> None:
        """Call `start` inside an NVTX range."""
        location = f" ({note.location})" if note.location else ""
        self._nvtx.push_range(f"{note.name}{location}", domain="weft")
        try:
            start()
        finally:
            self._nvtx.pop_range(domain="weft")

    def built(self, note: BuildNote) -> None:
        """Ignore the report that code has been compiled. It comes too late for an NVTX range around the compilation."""
