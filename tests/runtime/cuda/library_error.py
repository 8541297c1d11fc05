"""The exception that stand-ins of NVIDIA's libraries raise."""

from __future__ import annotations


class LibraryError(Exception):
    """A failed call, with the library's status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"STATUS_{status}")
        self.status = status
