"""Base classes of the schedules' decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The mapping of a kernel's work to threads, stored in its attribute ``schedule``.

    A subclass stands in the file of each schedule. Its fields are few classes of sizes, so that many sizes share a kernel.

    Attributes
    ----------
    vectors : tuple of str
        Pointer parameters through which accesses along the innermost index are aligned to whole vectors.
    multiples : tuple of str
        Parameters by which a launch sees that they are: where all of these are multiples of a vector. Others take single elements.
    whole : bool
        Whether nothing is left over beside whole vectors.
    specialised : bool
        Whether a kernel for exact sizes is another one than for all.
    keeps_alignment : bool
        Whether pointers stay aligned that no vector is read through.
    """

    vectors: tuple[str, ...] = ()
    multiples: tuple[str, ...] = ()
    whole: bool = False
    specialised: ClassVar[bool] = True
    keeps_alignment: ClassVar[bool] = False


class AnySizesDecision(Decision):
    """A decision that depends on the sizes only through alignment."""

    specialised: ClassVar[bool] = False
