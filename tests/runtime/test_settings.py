"""Tests of settings, of devices, and of the choice of the default device."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import weft as wf
from weft.codegen.obtain import CodeCache
from weft.runtime import OVERRIDES, SettingError, get_device, override, probe, set_variables, setting


def test_a_bad_value_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DEBUG", "plan,nonsense")
    with pytest.raises(SettingError, match=r"WEFT_DEBUG.*nonsense"):
        setting("debug")
    monkeypatch.setenv("WEFT_NUM_THREADS", "many")
    with pytest.raises(SettingError, match="WEFT_NUM_THREADS='many': it takes a whole number, 0 or more"):
        setting("threads")


def test_variables_that_are_no_settings_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_VERIFY", "0")
    monkeypatch.setenv("WEFT_CACH", "0")
    found = set_variables()
    assert found["WEFT_VERIFY"] == "0"
    assert found["WEFT_CACH"] == "0 (weft has no such setting; did you mean WEFT_CACHE?)"


def test_override() -> None:
    with override(threads=3):
        assert setting("threads") == 3
    with pytest.raises(SettingError), override(no_such=1):
        pass


def test_overrides_of_two_threads_that_overlap() -> None:
    first, second = override(threads=3, strict=False), override(threads=5)
    with first:
        second.__enter__()
    assert setting("threads") == 5
    second.__exit__(None, None, None)
    assert "threads" not in OVERRIDES


def test_devices() -> None:
    assert get_device("cpu") in wf.devices()
    with pytest.raises(wf.DeviceNotFoundError, match="cpu"):
        get_device("tpu")
    assert probe().message
    if probe().status != "ok":
        with pytest.raises(wf.DeviceNotFoundError):
            get_device("cuda:0")


def test_a_default_that_is_not_there_is_traced_to_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_DEVICE", "tpu")
    monkeypatch.setattr(sys.modules["weft.runtime.devices"], "_chosen", None)
    with pytest.raises(wf.DeviceNotFoundError, match="WEFT_DEVICE='tpu': no device"):
        wf.default_device()


def test_the_null_device_runs_nothing() -> None:
    with wf.device("null"):
        x = wf.ones(10) * 3
        assert float(x.sum()) == 0
    with wf.device("null:sm_90") as device:
        wf.evaluate(wf.exp(wf.ones(100)))
        assert device.launched >= 1  # type: ignore[attr-defined]


def test_devices_do_not_mix() -> None:
    x = wf.ones(3)
    with wf.device("null"):
        y = wf.ones(3)
    with pytest.raises(wf.DeviceMismatchError, match="move one"):
        wf.evaluate(x + y)


def test_a_build_that_fails_is_tried_again() -> None:
    cache = CodeCache(2)
    with pytest.raises(ZeroDivisionError):
        cache.get_or_build("k", lambda: 1 / 0)
    assert cache.get_or_build("k", lambda: 5) == 5


def test_the_least_recent_results_are_built_again() -> None:
    cache, built = CodeCache(2), list[int]()
    for k in (0, 1, 2, 2, 1, 0):
        cache.get_or_build(k, lambda k=k: built.append(k) or f"function {k}")
    assert built == [0, 1, 2, 0]


def test_results_of_other_dtypes_are_refused() -> None:
    with pytest.raises(TypeError):
        wf.ones(1) + np.array(["text"])
