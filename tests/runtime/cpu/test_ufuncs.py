"""Tests that inner loops of ufuncs restore the floating-point flags.

The loops are compiled for x86-64 and AArch64.
"""

from __future__ import annotations

import platform

import llvmlite.binding as llvm
import pytest

from weft.runtime.cpu import ufuncs

TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}
# instructions that write the floating-point flags
RESTORED = {"x86_64": "ldmxcsr", "aarch64": "msr\tFPSR"}


@pytest.mark.parametrize("machine", TRIPLES)
@pytest.mark.parametrize("inputs", [0, 1, 2])
def test_loops_restore_the_flags_on_every_machine(inputs: int, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    text = ufuncs._reduction_text("loop", inputs) if inputs else ufuncs._map_text("loop")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    module.verify()
    code = llvm.Target.from_triple(TRIPLES[machine]).create_target_machine(opt=2).emit_assembly(module)
    assert RESTORED[machine] in code
