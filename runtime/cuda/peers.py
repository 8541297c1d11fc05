"""Copies of memory from one GPU to another.

In: the drivers and stream orders of two devices. Out: a copy, ordered in both devices' streams. Invariant: the copy
follows the earlier work in the calling thread's streams of both devices. Later work in these streams follows the copy,
and no host thread waits. GPUs that can access each other's memory copy directly.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakSet

from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.streams import StreamOrder
from weft.runtime.errors import CudaError

ALREADY_ENABLED = 704
# Reader -> the owners for which access was requested, successfully or not.
_asked: WeakKeyDictionary[Driver, WeakSet[Driver]] = WeakKeyDictionary()


def enable_peer_access(reader: Driver, owner: Driver) -> None:
    """Give a GPU direct access to another GPU's memory, if the machine supports that.

    If there is no direct access, copies between the two GPUs use the host.
    """
    known = _asked.setdefault(reader, WeakSet())
    if owner in known:
        return
    known.add(owner)
    table = reader.table
    try:
        if not reader.call("cuDeviceCanAccessPeer", reader.handle, owner.handle):
            return
        try:  # (for memory outside of memory pools)
            reader.call("cuCtxEnablePeerAccess", owner.context, 0)
        except CudaError as error:
            if error.code != ALREADY_ENABLED:  # enabled by another library
                raise
        access = table.CUmemAccessDesc()
        access.location.type = table.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = int(reader.handle)
        access.flags = table.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        owner.call("cuMemPoolSetAccess", owner.call("cuDeviceGetDefaultMemPool", owner.handle), [access], 1)
    except CudaError:
        return  # not supported: copies use the host


def copy_from_peer(order: StreamOrder, to: int, source_order: StreamOrder, source: int, nbytes: int) -> None:
    """Copy memory from one GPU to another, in order with the calling thread's streams."""
    first, second = sorted((order, source_order), key=lambda o: o.driver.name)  # all threads lock in the same order
    with first.lock, second.lock:
        source_order.enter(None)
        ready = source_order.current.mark()
        queue = order.enter(None)
        order.current.wait(ready)
        contexts = order.driver.context, source_order.driver.context
        order.driver.call("cuMemcpyPeerAsync", to, contexts[0], source, contexts[1], nbytes, queue)
        source_order.current.wait(order.current.mark())
