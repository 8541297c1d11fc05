"""Tests of the disk cache.

A missing or damaged entry, or an entry for another key, is a cache miss, not an error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

import pytest

from weft.runtime import CacheWarning, ObjectCode, override, source_digest
from weft.runtime.cache import DiskCache, disk_cache

CODE = ObjectCode(
    "object", "kernel", b"\x7fELF" + bytes(range(256)), "host", ("pointer", "int32"), ("expf",), {"parallel": True}
)
KEY = b"some kernel text"


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", 1 << 20)


def entry(cache: DiskCache) -> Path:
    (path,) = Path(cache.folder).glob("*.weft")
    return path


def test_round_trip(cache: DiskCache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, CODE)
    assert cache.get(KEY) == CODE
    assert cache.get(b"another") is None
    assert cache.info()["entries"] == 1
    assert cache.clear() == 1
    assert cache.get(KEY) is None


def test_entries_that_cannot_be_removed_are_not_counted(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    cache.put(KEY, CODE)
    monkeypatch.setattr("os.unlink", refuse)
    with pytest.warns(CacheWarning, match="cannot remove the cache entry .*Permission denied"):
        assert cache.clear() == 0


def test_the_oldest_go_when_there_is_too_much(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, CODE)
    size = cache.info()["bytes"]
    cache.clear()
    small = DiskCache(cache.folder, 64 * size)
    looks = []
    monkeypatch.setattr(DiskCache, "_entries", lambda self, real=DiskCache._entries: looks.append(1) or real(self))
    for k in range(80):
        key = b"some kernel te" + b"%02d" % k
        small.put(key, CODE)
        os.utime(small._path(key), (k, k))
        assert sum(path.stat().st_size for path in Path(small.folder).glob("*.weft")) <= 64 * size
    assert len(looks) < 30  # the folder is not scanned for every new entry
    assert small.get(b"some kernel te79") == CODE and small.get(b"some kernel te00") is None


def test_short_processes_rarely_scan_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(DiskCache, "_entries", lambda self, real=DiskCache._entries: looks.append(1) or real(self))
    size = sum(path.stat().st_size for path in written(tmp_path / "one", 1))
    written(tmp_path / "many", 400, 16 * 40 * size)  # a scan for every 40 entries, on average
    assert 1 <= len(looks) <= 60
    assert sum(path.stat().st_size for path in (tmp_path / "many").glob("*.weft")) == 400 * size


def written(folder: Path, count: int, limit: int = 1 << 20) -> list[Path]:
    for k in range(count):
        DiskCache(folder, limit).put(b"some kernel te%03d" % k, CODE)
    return list(folder.glob("*.weft"))


def damaged(cache: DiskCache, data: bytes) -> None:
    cache.put(KEY, CODE)
    path = entry(cache)
    path.write_bytes(data)
    fresh = DiskCache(cache.folder, cache.limit)
    with pytest.warns(CacheWarning):
        assert fresh.get(KEY) is None
    assert not path.exists()
    fresh.put(KEY, CODE)
    assert fresh.get(KEY) == CODE


def test_truncated_entries(cache: DiskCache) -> None:
    cache.put(KEY, CODE)
    whole = entry(cache).read_bytes()
    for k in range(64):
        damaged(cache, whole[: len(whole) * k // 64])


def test_flipped_bytes(cache: DiskCache) -> None:
    cache.put(KEY, CODE)
    whole = entry(cache).read_bytes()
    for k in range(64):
        at = len(whole) * k // 64
        damaged(cache, whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])


def test_an_entry_of_another_key_is_foreign(cache: DiskCache) -> None:
    cache.put(b"another", CODE)
    other = entry(cache).read_bytes()
    cache.clear()
    damaged(cache, other)


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(CacheWarning, match="others may write"):
        cache = DiskCache(folder, 1 << 20)
    cache.put(KEY, CODE)
    assert cache.get(KEY) is None


def test_a_file_instead_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(CacheWarning):
        cache = DiskCache(tmp_path / "file", 1 << 20)
    assert cache.get(KEY) is None


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "small", 1500)
    for k in range(5):
        cache.put(f"key {k}".encode(), CODE)
        os.utime(cache._path(f"key {k}".encode()), (k, k))
    assert cache.info()["bytes"] <= 1500
    assert cache.get(b"key 4") == CODE


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    code = (
        "import weft as wf, numpy as np; wf.set_default_device('cpu');"
        "x = wf.asarray(np.arange(9.0)); assert float((wf.exp(x) * 2).sum()) > 1; print(wf.statistics()['compilations'])"
    )
    environment = {**os.environ, "WEFT_CACHE_DIR": str(tmp_path / "shared"), "PYTHONPATH": os.pathsep.join(sys.path)}
    counts = [
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert int(counts[0]) >= 1
    assert counts[1] == "0"


def test_no_warning_without_reason(cache: DiskCache) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, CODE)
        assert cache.get(KEY) == CODE


def test_a_digest_of_sources_depends_on_all_of_them_and_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.py").write_text("x = 1")
    (folder / "inner" / "b.py").write_text("y = 2")
    with override(cache_dir=str(tmp_path / "cache")):
        first = source_digest(folder)
        with mock.patch.object(Path, "read_bytes", autospec=True, side_effect=Path.read_bytes) as read:
            assert source_digest(folder) == first
        assert not [path for (path,), _ in read.call_args_list if path.suffix == ".py"]
        (folder / "inner" / "b.py").write_text("y = 23")
        second = source_digest(folder)
        (folder / "text.txt").write_text("no source")
        assert source_digest(folder) == second != first
        (folder / "inner" / "b.py").write_text("y = 2")
        assert source_digest(folder) == first
        (folder / "inner" / "c.ll").write_text("define")
        assert source_digest(folder) not in (first, second)
        (folder / "inner" / "c.ll").unlink()
    with override(cache=False):
        assert source_digest(folder) == first


def test_a_relative_folder_stays_where_it_was_first_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with override(cache=True, cache_dir=f"{tmp_path.name} relative"):
        first = disk_cache()
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        assert disk_cache() is first and first is not None
    assert first.folder == str(tmp_path / f"{tmp_path.name} relative")
