"""Base classes for the parameters of GPU schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The parameters of the GPU schedule that was chosen for a kernel.

    The parameters are stored in the ``schedule`` attribute of the kernel.

    The file of each schedule defines a subclass. The fields take few values, so that many sizes share a kernel.

    Attributes
    ----------
    vectors : tuple of str
        Pointer parameters through which accesses along the innermost index are aligned to whole vectors.
    multiples : tuple of str
        Size parameters that must all be multiples of the vector length for this alignment. A launch with other sizes
        accesses single elements.
    whole : bool
        Whether whole vectors cover all elements.
    specialized : bool
        Whether a kernel for exact sizes differs from the kernel for all sizes.
    keeps_alignment : bool
        Whether the kernel keeps the alignment of pointers that have no vector accesses.
    """

    vectors: tuple[str, ...] = ()
    multiples: tuple[str, ...] = ()
    whole: bool = False
    specialized: ClassVar[bool] = True
    keeps_alignment: ClassVar[bool] = False


class AnySizesDecision(Decision):
    """The parameters of a GPU schedule that does not depend on exact array sizes. It may depend on whether sizes are multiples of certain numbers."""

    specialized: ClassVar[bool] = False
