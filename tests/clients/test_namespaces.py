"""Tests of libraries with array API support under ``weft run``.

A call may have both weft and NumPy arrays as arguments.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.clients.test_packages import run

pytestmark = pytest.mark.clients

PROGRAM = """
import numpy as np
import scipy.signal
import scipy.stats
import sklearn
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score
from sklearn.preprocessing import StandardScaler

b, a = scipy.signal.butter(3, 0.2)
for n in (100, 3_000, 40_000):
    x = np.linspace(0, 1, n) ** 2
    print(np.round(scipy.signal.filtfilt(b, a, x)[:3], 6))
    print(np.round(scipy.stats.ttest_ind(x, np.asarray(x.tolist()[:50])).pvalue, 6))
    print(np.round(scipy.stats.zscore(x)[:3], 6), np.round(scipy.stats.skew(x), 6))
    features = np.random.default_rng(0).normal(size=(n, 5))
    target = features @ np.arange(5.0) + 1
    with sklearn.config_context(array_api_dispatch=True):
        print(np.round(Ridge(solver="svd").fit(features, target).coef_, 5))
        print(np.round(StandardScaler().fit_transform(features)[:2], 4))
        print(accuracy_score(np.arange(n) % 2, np.asarray([0, 1] * (n // 2))))
"""


def test_scipy_and_sklearn_find_one_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scipy", "sklearn"):
        pytest.importorskip(name)
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    monkeypatch.setitem(os.environ, "SCIPY_ARRAY_API", "1")
    theirs, ours = run(script, tmp_path), run(script, tmp_path, "-m", "weft", "run")
    assert theirs.returncode == 0, theirs.stderr[-4000:]
    assert ours.returncode == 0, ours.stderr[-4000:]
    assert ours.stdout == theirs.stdout
