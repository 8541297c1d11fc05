"""Tests of the names under which exceptions are shown and pickled."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator

import pytest

import weft
from weft.dsl.kernel.language.kernel_errors import KernelError

# This module defines SanitizerError.
from weft.dsl.kernel.sanitizer import sanitized_launch as sanitized_launch


def _subclasses(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        if each.__module__.partition(".")[0] == "weft":
            yield each
        yield from _subclasses(each)


EXPORTED = [*weft.__all__, "SanitizerError"]
PUBLIC = {n: k for n in EXPORTED if isinstance(k := getattr(weft, n), type) and issubclass(k, BaseException)}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_exception_is_shown_by_its_public_name(name: str) -> None:
    kind = PUBLIC[name]
    assert f"{kind.__module__}.{kind.__qualname__}" == f"weft.{name}"
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_exceptions_of_the_module_weft_are_exported() -> None:
    named = {kind for kind in _subclasses(BaseException) if kind.__module__ == "weft"}
    assert len(named) > 20 and named <= set(PUBLIC.values())


def test_all_errors_of_weft_are_exported() -> None:
    assert set(_subclasses(weft.WeftError)) | {weft.WeftError, KernelError} <= set(PUBLIC.values())


def test_a_traceback_shows_the_public_name() -> None:
    with pytest.raises(weft.LaunchError) as caught:
        weft.kernel(lambda x: None)[1, 5000](weft.ones(3))
    assert traceback.format_exception_only(caught.value)[0].startswith("weft.LaunchError: ")
