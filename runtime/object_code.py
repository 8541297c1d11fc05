"""Object code: what code generation hands to the runtime, and the disk cache keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["object", "ptx", "cubin"]


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """Compiled code of one kernel.

    Attributes
    ----------
    kind : {"object", "ptx", "cubin"}
        Host object file, PTX text (UTF-8) or cubin.
    entry : str
        The symbol of the kernel.
    code : bytes
    target : str
        Which target it was made for (`Target.name`: "host" or "sm_90").
    parameters : tuple of str
        One a kernel parameter, in order: "pointer", or the dtype's name ("int32", "float64").
    symbols : tuple of str
        Outside symbols that host code refers to (each checked before linking).
    launch : dict
        How to launch it, plain JSON data. CPU: ``{"scheme": "chunks", "parallel": bool}``.
        GPU: ``{"scheme": "elements"|"rows"|..., "block": threads, "per_block": items of the launch
        domain that one block does, "shared": bytes}``.
    """

    kind: Kind
    entry: str
    code: bytes
    target: str
    parameters: tuple[str, ...]
    symbols: tuple[str, ...] = ()
    launch: dict[str, Any] = field(default_factory=dict)
