"""A child process of test_cuda_bindings.

It uses cuda.bindings with a stand-in for the driver's library.

The process prints one line per fact. The arguments are a folder for the library and the name of a function of this
module.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from tests.stand_in import StandIn
from tests.stand_in.driver import put32
from tests.stand_in.library import load_library


def modules() -> str:
    """Return which of the modules llvmlite, sympy and cuda.bindings.nvjitlink are loaded."""
    return " ".join(name for name in ("llvmlite", "sympy", "cuda.bindings.nvjitlink") if name in sys.modules)


def work(driver: StandIn) -> None:
    """Run fused kernels, CUDA graphs, an explicit kernel and copies. Print facts about them."""
    import weft as wf
    from weft import cuda
    from weft.fusion.run.execute import _plans
    from weft.runtime import default_device, probe

    print("probe", probe().status, probe().devices[0].name)
    device = default_device()
    print("device", device.name, device.target.name)
    x, y = wf.asarray(np.arange(1000.0)), wf.asarray(np.ones((30, 40), np.float32))
    for _ in range(5):
        results = (wf.exp(x) + 1.0, (y * 2.0).sum(axis=1), (y.T + 1.0).max(), x.sum())
        wf.evaluate(*results)
    print("launches", driver.count("cuLaunchKernelEx") > 0, "graphs", driver.count("cuGraphLaunch"))

    @wf.kernel
    def add(a, b, out):  # type: ignore[no-untyped-def]
        k = cuda.grid(1)
        if k < out.shape[0]:
            out[k] = a[k] + b[k]

    stream = cuda.stream()
    for queue in (0, stream):
        add[4, 256, queue](x, x, wf.zeros(1000))
    stream.synchronize()
    _plans.clear()
    gc.collect()
    print("destroyed", driver.count("cuGraphExecDestroy"), driver.count("cuGraphDestroy"))
    print("bytes", x.numpy().shape, np.array_equal(cuda.to_device(np.arange(7)).copy_to_host(), np.arange(7)))
    print("modules", modules())


def lose(driver: StandIn) -> None:
    """Simulate an illegal address, which makes the device unusable.

    Later uses are errors, and freeing memory makes no driver call.
    """
    import weft as wf

    x = wf.asarray(np.arange(1000.0))
    wf.evaluate(x + 1)
    driver.fail("cuEventQuery", 700)
    for _ in range(2):
        try:
            (x + 1).numpy()
        except wf.DeviceLostError as error:
            print("lost", error)
    driver.mend()
    driver.forget()
    del x
    gc.collect()
    print("silent", not driver.calls)
    with wf.device("cpu"):
        print("cpu", float((wf.ones(10) + 1).sum()))


def hang(driver: StandIn) -> None:
    """Simulate an endless kernel. The process must still be able to exit.

    Arrays, streams and graphs exist at this time.
    """
    import weft as wf
    from weft import cuda

    x = wf.asarray(np.arange(1000.0))
    for _ in range(5):
        kept = [(x * k).sum() for k in range(4)]
        wf.evaluate(*kept)
    globals().update(kept=kept, stream=cuda.stream(), x=x)
    driver.fail("cuEventQuery", 600)
    driver.fail("cuStreamQuery", 600)
    print("hang", len(kept))


def calls(driver: StandIn) -> None:
    """Call the driver functions that the runtime uses, except those of graphs. Print results."""
    from array import array

    from weft.runtime import ObjectCode, get_device

    driver.native.bodies["cuDeviceGetCount"] = lambda a: put32(a[0], 2)
    driver.native.bodies["cuDeviceCanAccessPeer"] = lambda a: put32(a[0], 1)
    one, other = get_device("cuda:0"), get_device("cuda:1")
    values = np.arange(1000.0)
    x = one.upload(values)
    assert np.array_equal(one.download(other.fetch(x), values.dtype, values.shape), values)
    one.copy(x, one.allocate(values.nbytes), values.nbytes)
    ptx = b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\nret;\n}\n"
    made = [
        one.load(ObjectCode("ptx", "k", ptx, "sm_90", ("pointer",), (), {"cooperative": together}))
        for together in (False, True)
    ]
    for native in (True, False):
        if not native:
            one._launcher.native = None
        for function in made:
            function.prepared.clear()
            one.launch_grid(function, (2, 3, 4), (32, 1, 1), 100_000, array("q", [x.address]))
    function = made[0]
    print("facts", one.active_blocks(function, 256, 0), *one.best_block(function))
    print("shared", *one.best_block(function, lambda threads: 96 * threads))
    try:
        one.best_block(function, lambda threads: 1.5)
    except TypeError as error:
        print("refused", error)
    facts = one.facts()
    print("gpu", facts.name, facts.uuid, facts.attributes["WARP_SIZE"], len({*facts.attributes}) > 100)
    stream, began, ended = one.create_stream(), one.create_event(), one.create_event()
    seen: list[int] = []
    began.record(stream)
    for k in range(3):
        stream.add_callback(lambda k=k: seen.append(k))
    stream.wait(began)
    ended.record(stream)
    print("stream", seen, stream.query(), ended.elapsed(began))
    kinds = [one.host_memory(100, kind) for kind in ("pinned", "mapped", "managed")]
    kept = one.pin(values)
    assert one.pin(values[2:]).owner is not kept.owner, "registered already"
    buffer, handle = one.share(1000)
    opened = one.open_shared(handle, 1000)
    texture = one.texture(np.zeros((2, 3, 4), np.float32), "linear", "mirror", True)
    print("texture", texture.handle > 0)
    print("memory", len(kinds), kept.nbytes, len(handle), opened.nbytes, one.memory_info()[1])
    import weft as wf
    from weft import cuda

    there = other.allocate(800)
    addresses = [x.address, there.address]
    driver.native.bodies["cuPointerGetAttribute"] = lambda a: put32(a[0], addresses.index(a[2]))
    for k, address in enumerate(addresses):
        interface = {"shape": (100,), "typestr": "<f8", "data": (address, False), "version": 3}
        theirs = cuda.as_cuda_array(SimpleNamespace(__cuda_array_interface__=interface))
        print(f"lies{k}", theirs.device.name, (theirs + 1).device.name)
    with wf.device(one):
        print("streams", wf.stream().__cuda_stream__()[1] > 2, cuda.default_stream().__cuda_stream__()[1] > 2)
    del there, theirs
    one.profile(True)
    one.profile(False)
    del stream, began, ended, kinds, kept, buffer, opened, x, made, function, texture
    gc.collect()
    one.reset()
    print("wrong", driver.memory.wrong)
    print("called", *sorted({call.name for call in driver.calls}))


if __name__ == "__main__":
    made = StandIn()
    load_library(Path(sys.argv[1]), made)
    # the stand-in is compiled at this point; unload the compiler to detect other uses
    for name in [name for name in sys.modules if name.partition(".")[0] == "llvmlite"]:
        del sys.modules[name]
    {"work": work, "lose": lose, "hang": hang, "calls": calls}[sys.argv[2]](made)
