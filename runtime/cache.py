"""The disk cache of compiled code.

Each entry is one file: a magic number, lengths, SHA-256 digests of the key and the payload, the key, and the payload.
The payload is JSON and the code's bytes. Nothing is unpickled. Invariant: an entry is returned only if its digests
match. Any other entry is a miss and is removed. A failed write is not an error. Each `DiskCache` issues at most
one warning.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import struct
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any

from weft.runtime.errors import CacheWarning, warn_user
from weft.runtime.object_code import ObjectCode
from weft.runtime.settings import setting

MAGIC = b"weft\x00\x01"
# Increased when the format of entries changes.
SCHEMA = 1
# The folder is scanned after at most `limit` // `SHARE` bytes have been written. The first scan of a process follows after
# a random number of bytes. Short processes therefore rarely scan the folder, which takes 0.3 s for 70,000 entries, but
# all processes together scan it often enough.
SHARE = 16
# Seconds after which an unfinished file is assumed to be left by a killed process.
ABANDONED = 3600
REMEDY = "kernels are compiled anew in every process: name a folder that can be written to in WEFT_CACHE_DIR, or set WEFT_CACHE=0"
HEADER = struct.Struct("<6sQQ32s32s")  # magic, key length, payload length, their digests


def encode(code: ObjectCode) -> bytes:
    """Serialize object code to bytes in the format of the disk cache."""
    fields = {k: v for k, v in asdict(code).items() if k != "code"}
    text = json.dumps(fields, sort_keys=True).encode()
    return struct.pack("<Q", len(text)) + text + code.code


def decode(payload: bytes) -> ObjectCode:
    """Deserialize object code from bytes that `encode` returned."""
    (length,) = struct.unpack_from("<Q", payload)
    fields = json.loads(payload[8 : 8 + length])
    fields["parameters"] = tuple(fields["parameters"])
    fields["symbols"] = tuple(fields["symbols"])
    return ObjectCode(code=payload[8 + length :], **fields)


class DiskCache:
    """A disk cache: a folder of entries, whose total size is limited to about `limit` bytes."""

    def __init__(self, folder: str | os.PathLike[str], limit: int) -> None:
        self.folder = os.fspath(folder)
        self.limit = limit
        self.usable = self._prepare()
        self._room = int.from_bytes(os.urandom(8), "little") % max(1, limit // SHARE)  # bytes to write before a scan
        self._warned = False

    def _make_folder(self) -> None:
        os.makedirs(os.path.dirname(self.folder) or ".", exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.folder, 0o700)

    def _prepare(self) -> bool:
        try:
            self._make_folder()
            found = os.stat(os.path.join(self.folder, ""))
        except OSError as error:
            warn_user(f"no disk cache: {self.folder}: {error.strerror}; {REMEDY}", CacheWarning)
            return False
        if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            warn_user(
                f"no disk cache: {self.folder} belongs to another user or others may write to it; {REMEDY}",
                CacheWarning,
            )
            return False
        return True

    def _path(self, key: bytes) -> str:
        return self._file(hashlib.sha256(key).hexdigest())

    def _file(self, digest: str) -> str:
        return os.path.join(self.folder, digest + ".weft")

    def _warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            warn_user(text, CacheWarning)

    def get(self, key: bytes) -> ObjectCode | None:
        """Return the object code stored for `key`, or None if there is no valid entry."""
        return self.find(hashlib.sha256(key).hexdigest())

    def has(self, key: bytes) -> bool:
        """Return whether the cache has an entry for `key`, without reading the entry."""
        return self.usable and os.path.exists(self._path(key))

    def find(self, digest: str) -> ObjectCode | None:
        """Return the object code for a key's SHA-256 digest, or None if there is no valid entry."""
        if not self.usable:
            return None
        path = self._file(digest)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot read the cache entry {path}: {error}")
            return None
        code = self._verified(data, digest)
        if code is None:
            self._warn(f"the cache entry {path} is damaged; it is removed and the kernel compiled again")
            self._remove(path)
        else:
            self._touch(path)
        return code

    @staticmethod
    def _verified(data: bytes, digest: str) -> ObjectCode | None:
        if len(data) < HEADER.size:
            return None
        magic, key_length, length, key_digest, payload_digest = HEADER.unpack_from(data)
        if magic != MAGIC or len(data) != HEADER.size + key_length + length or key_digest.hex() != digest:
            return None
        stored, payload = data[HEADER.size : HEADER.size + key_length], data[HEADER.size + key_length :]
        if hashlib.sha256(stored).digest() != key_digest or hashlib.sha256(payload).digest() != payload_digest:
            return None
        try:
            return decode(payload)
        except (ValueError, KeyError, TypeError, struct.error):
            return None

    @staticmethod
    def _touch(path: str) -> None:
        try:
            os.utime(path)
        except OSError:
            return  # only the order of eviction suffers

    def _remove(self, path: str) -> bool:
        """Remove a file, and return whether it is gone."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._warn(f"cannot remove the cache entry {path}: {error}")
            return False
        return True

    def put(self, key: bytes, code: ObjectCode) -> None:
        """Store object code in the cache under a key.

        An entry that another process may have stored in the meantime is replaced. A failed write issues a warning.
        """
        if not self.usable:
            return
        import tempfile

        payload = encode(code)
        header = HEADER.pack(
            MAGIC, len(key), len(payload), hashlib.sha256(key).digest(), hashlib.sha256(payload).digest()
        )
        entry = header + key + payload
        try:
            self._make_folder()  # another process may have removed it
            handle, name = tempfile.mkstemp(dir=self.folder, prefix="new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    # (no fsync, which takes milliseconds: the digest detects a lost write)
                    file.write(entry)
                os.replace(name, self._path(key))
            except BaseException:
                os.unlink(name)
                raise
            self._room -= len(entry)
            if self._room < 0:
                self._evict()
        except OSError as error:
            self._warn(f"cannot write to the disk cache {self.folder}: {error}; {REMEDY}")

    def _files(self, begin: str, end: str) -> list[tuple[float, int, str]]:
        """Return the modification times, sizes and paths of the files with a given prefix and suffix, oldest first."""
        found = []
        try:
            with os.scandir(self.folder) as files:
                for file in files:
                    if file.name.startswith(begin) and file.name.endswith(end):
                        with contextlib.suppress(OSError):  # another process removed it
                            found.append(((state := file.stat()).st_mtime, state.st_size, file.path))
        except FileNotFoundError:
            return []
        return sorted(found)

    def _entries(self) -> list[tuple[float, int, str]]:
        return self._files("", ".weft") if self.usable else []

    def _evict(self) -> None:
        """Remove the least recently used entries if the total size is above the limit.

        More entries than necessary are removed, so that evictions are rare. Abandoned temporary files are removed too.
        """
        entries = self._entries()
        total, share = sum(size for _, size, _ in entries), self.limit // SHARE
        wanted = self.limit if total <= self.limit else self.limit - share
        for _, size, path in entries:
            if total <= wanted:
                break
            self._remove(path)
            total -= size
        self._room = min(share, self.limit - total)
        self._remove_temporaries(time.time() - ABANDONED)

    def _remove_temporaries(self, before: float) -> None:
        """Remove temporary files that were last modified before the time `before`."""
        for modified, _, path in self._files("new-", ""):
            if modified < before:
                self._remove(path)

    def info(self) -> dict[str, Any]:
        """Return a dict with the cache's folder, number of entries, total bytes and size limit."""
        entries = self._entries()
        return {
            "folder": self.folder,
            "entries": len(entries),
            "bytes": sum(size for _, size, _ in entries),
            "limit": self.limit,
        }

    def clear(self) -> int:
        """Remove all entries and temporary files, and return the number of removed entries."""
        removed = sum(self._remove(path) for _, _, path in self._entries())
        if self.usable:
            self._remove_temporaries(time.time())
        return removed


@cache
def _versions() -> str:
    # (callers that depend on weft's source add its digest to the text of the key)
    return ", ".join(f"{name} {_version(name)}" for name in ("llvmlite", "numpy"))


def _version(name: str) -> str:
    """Return the version of a package, or "missing" if the package is not installed.

    For an installed package without metadata, return "from its source tree". The version is read from the name of the
    ``.dist-info`` folder if possible. Loading importlib.metadata takes 20 ms.
    """
    spec = PathFinder.find_spec(name) or find_spec(name)  # (a package on the path needs none of the other finders)
    if spec is None or spec.origin is None:
        return "missing"
    begin, end = f"{name}-", ".dist-info"
    names = os.listdir(os.path.dirname(os.path.dirname(spec.origin)))
    found = sorted(each for each in names if each.startswith(begin) and each.endswith(end))
    if found:
        return found[-1][len(begin) : -len(end)]
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "from its source tree"


def key_material(target: Any, text: str) -> bytes:
    """Return the disk cache key for a target and a text, such as the text of a kernel.

    The key also contains the versions of llvmlite and NumPy, and of the format of the cache.
    """
    return f"{_versions()}, schema {SCHEMA}\n{target!r}\n{text}".encode()


def source_digest(folder: str | os.PathLike[str]) -> str:
    """Return a digest of the Python and LLVM files in a folder and its subfolders.

    The digest is stored on disk under the paths, sizes and modification times of the files. Python also uses sizes and
    modification times to find out whether byte code is up to date. Reading all files would take ten times as long.
    """
    files: list[tuple[str, int, int]] = []
    _list_sources(os.fspath(folder), files)
    files.sort()

    def read() -> ObjectCode:
        digest = hashlib.sha256()
        for path, _, _ in files:
            with open(path, "rb") as file:
                digest.update(file.read())
        return ObjectCode("facts", "", b"", "", (), (), {"digest": digest.hexdigest()})

    found: str = obtain_entry(key_material("source files", repr(files)), read).launch["digest"]
    return found


def _list_sources(folder: str, files: list[tuple[str, int, int]]) -> None:
    """Append (path, size, modification time) of each source file in a folder and its subfolders."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".ll")):
                state = entry.stat()
                files.append((entry.path, state.st_size, state.st_mtime_ns))
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                _list_sources(entry.path, files)


_caches: dict[tuple[str, int], DiskCache] = {}


@cache
def fixed_path(path: str) -> str:
    """Return the absolute path for `path`. Later calls with the same path return the same result, even if the working directory has changed."""
    return os.path.abspath(path)


def disk_cache() -> DiskCache | None:
    """Return the disk cache that the settings configure, or None if the settings disable it."""
    if not setting("cache"):
        return None
    named = setting("cache_dir") or os.path.join(setting("xdg_cache") or os.path.expanduser("~/.cache"), "weft")
    where = fixed_path(named)
    key = (where, setting("cache_size"))
    if key not in _caches:
        _caches[key] = DiskCache(where, key[1])
    return _caches[key]


def obtain_entry(key: bytes, make: Callable[[], ObjectCode]) -> ObjectCode:
    """Return the disk cache's entry for `key`. A missing entry is made, and stored if there is a disk cache."""
    cache = disk_cache()
    found = cache.get(key) if cache is not None else None
    if found is None:
        found = make()
        if cache is not None:
            cache.put(key, found)
    return found
