"""Evaluation: run what storages need, and give them their buffers.

In: pending storages. Out: the same storages, realised. Always true: a failed evaluation
changes nothing; whatever was pending still is.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.fusion.execute import run
from weft.fusion.expr import leaf
from weft.fusion.storage import Epoch, Storage, recording
from weft.runtime import OutOfMemoryError


def evaluate(storages: Iterable[Storage]) -> None:
    """Realise `storages`, and with them the live values that they are computed from."""
    by_epoch: dict[Epoch, list[Storage]] = {}
    for storage in storages:
        if storage.buffer is None and storage.epoch is not None:
            by_epoch.setdefault(storage.epoch, []).append(storage)
    for epoch, members in by_epoch.items():
        evaluate_epoch(epoch, members)


def evaluate_epoch(epoch: Epoch, storages: list[Storage]) -> None:
    """Realise `storages`, all recorded in `epoch`."""
    with epoch.lock:
        live = epoch.live()
        known = set(live)
        live += [s for s in dict.fromkeys(storages) if s not in known and s.buffer is None and s.epoch is epoch]
        asked = set(storages)
        wanted = frozenset([k for k, s in enumerate(live) if s in asked])
        if wanted:
            versions = [s.expr for s in live]
            try:
                outcome = run(epoch, versions, wanted)  # type: ignore[arg-type]
            except OutOfMemoryError as error:
                # the frames in its traceback hold what the plan had made
                raise error.with_traceback(None) from None
            rest = False
            for storage, version in zip(live, versions, strict=True):
                buffer = outcome.get(version)  # type: ignore[arg-type]
                if buffer is None:
                    rest = True
                elif storage.expr is version:
                    buffer.origin = version.location or epoch.first  # type: ignore[union-attr]
                    storage.buffer = buffer
                    storage.epoch = storage.expr = None
            # dead storages and their epoch refer to each other: let go of them now, not at the next collection
            epoch.pending = [s for s in live if s.buffer is None]
            if rest:
                # what stays pending here must find these results, not compute them again
                for version, buffer in outcome.items():
                    epoch.results[version] = leaf(epoch.bind(buffer), version.shape, version.dtype, epoch.device.name)
    if recording.epoch is epoch:
        if not epoch.pending:
            epoch.forget()
        recording.epoch = Epoch(epoch.device)
        recording.epoch.first = None
