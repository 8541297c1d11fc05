"""Tests of the size limit for immediate execution by NumPy. The limit is raised while another process compiles a program."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from unittest import mock

import numpy as np
import pytest

import weft as wf
from weft import runtime
from weft.fusion.plan import plan_cache
from weft.fusion.run import execute, raised_limit, tiers
from weft.runtime import RAISED, Request, override

IMMEDIATE = 32768


def _wait(condition: Callable[[], bool]) -> None:
    end = monotonic() + 20
    while not condition():
        assert monotonic() < end
        sleep(0.001)


def _is_reset() -> bool:
    return runtime.IMMEDIATE[0] == IMMEDIATE and not raised_limit._watched


@pytest.mark.parametrize("state", ["done", "failed", "crashed", "lost"])
def test_the_limit_is_reset_when_the_request_is_over(state: str) -> None:
    request = Request(b"", None)
    raised_limit.raise_limit(request)
    _wait(lambda: runtime.IMMEDIATE[0] == RAISED * IMMEDIATE)
    raised_limit.raise_limit(Request(b"", None))  # (only one request is watched)
    request.finish(state)
    _wait(_is_reset)


def test_the_limit_is_reset_if_an_answer_cannot_be_received() -> None:
    request = Request(b"", None)
    with mock.patch.object(Request, "is_over", side_effect=OSError), mock.patch("threading.excepthook"):
        raised_limit.raise_limit(request)
        _wait(_is_reset)


def test_the_limit_is_not_raised_without_a_thread() -> None:
    with mock.patch("threading.Thread.start", side_effect=RuntimeError):
        raised_limit.raise_limit(Request(b"", None))
    assert _is_reset()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_process_has_the_usual_limit() -> None:
    request = Request(b"", None)
    raised_limit.raise_limit(request)
    _wait(lambda: runtime.IMMEDIATE[0] == RAISED * IMMEDIATE)
    child = os.fork()
    if not child:
        os._exit(0 if _is_reset() else 1)
    assert os.waitpid(child, 0)[1] == 0
    request.finish("lost")
    _wait(_is_reset)


@pytest.mark.parametrize(("size", "raised"), [(50_000, True), (200_000, False)])
def test_medium_arrays_are_computed_immediately_while_a_program_is_compiled(
    size: int, raised: bool, tmp_path: Path
) -> None:
    for known in (tiers._forms, tiers._programs, execute._plans, plan_cache._known, plan_cache._absent):
        known.clear()
    requests: list[Request] = []

    def submit(*arguments: Any, **options: Any) -> Request:
        requests.append(Request(b"", None))
        return requests[-1]

    with (
        override(interpret="auto", plans=True, background=True, cache_dir=str(tmp_path)),
        mock.patch.object(runtime, "submit", submit),
        mock.patch.multiple(tiers, LOST=1e-9, BACKGROUND=1e-12),
        mock.patch.multiple(tiers._Rate, start=0.0, second=0.0),
    ):
        x = wf.asarray(np.linspace(0, 1, size))
        y = np.asarray(x).copy()
        wanted = (y * 2 - 7) / (y + 5) - y
        limits = set()
        for _ in range(1000):
            found = (x * 2 - 7) / (x + 5) - x
            limits.add(found._storage.buffer is not None)
            assert np.asarray(found).tobytes() == wanted.tobytes()
        assert len(requests) == 1 and limits == ({False, True} if raised else {False})
        requests[0].finish("lost")
        _wait(_is_reset)
