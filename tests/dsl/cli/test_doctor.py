"""Tests of ``weft doctor`` and ``weft info``."""

from __future__ import annotations

import re
from typing import Any

import pytest

from weft.dsl.cli import reports
from weft.runtime import CudaError, MissingAssemblerError, override
from weft.runtime.cuda import linker
from weft.runtime.cuda.probe import GpuNote, Probe


def test_without_an_assembler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing() -> Any:
        raise MissingAssemblerError("nvJitLink is not installed: pip install it")

    monkeypatch.setattr(linker, "load_nvjitlink", missing)
    monkeypatch.setattr(reports, "TARGETS", ("sm_90",))
    assert reports.doctor() == 0
    printed = capsys.readouterr().out
    assert "note  only PTX for the targets sm_90: nvJitLink is not installed: pip install it\n" in printed
    assert printed.count("nvJitLink is not installed") == 1


def test_a_gpu_that_does_not_work(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = Probe("ok", "1 GPU(s)", "", (13, 0), (GpuNote("Stand-in", (9, 0), 1 << 30),))
    use = reports.use_device

    def busy(name: str) -> Any:
        if name == "cuda:0":
            error = CudaError("cuDevicePrimaryCtxRetain", 46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "another process has it")
            error.add_note("and more")
            raise error
        return use(name)

    monkeypatch.setattr(reports, "TARGETS", ())
    monkeypatch.setattr(reports, "probe", lambda: found)
    monkeypatch.setattr(reports, "use_device", busy)
    assert reports.doctor() == 1
    said = capsys.readouterr().out
    assert "ok    device cpu" in said
    assert "FAIL  device cuda:0  CudaError: cuDevicePrimaryCtxRetain" in said and "another process has it" in said
    assert "and more" in said


def test_kernels_are_tested_although_tier_zero_takes_few_elements(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reports, "TARGETS", ("host",))
    with override(immediate=16384):
        assert reports.doctor() == 0
    printed = capsys.readouterr().out
    assert "lines of assembly" in printed
    assert re.search(r"ok    device cpu     largest difference from NumPy \S+e-0[67] \(limit 0.0001\)", printed)


def test_a_large_difference_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(reports, "TARGETS", ())
    monkeypatch.setattr(reports, "TOLERANCE", 1e-9)
    assert reports.doctor() == 1
    assert "FAIL  device cpu" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({}, "nvidia-nvvm      not installed; for a GPU: pip install 'weft[cuda13]' (or cuda12)"),
        ({"nvidia-nvvm": "13.1"}, "nvidia-nvvm 13.1"),
        ({"nvidia-cuda-nvcc-cu12": "12.9"}, "nvidia-cuda-nvcc-cu12 12.9"),
    ],
)
def test_info_names_the_packages_of_cuda_12_or_13(
    installed: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "installed_version", lambda name: installed.get(name, "not installed"))
    assert expected in reports.info().splitlines()
