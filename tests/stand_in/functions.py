"""Native stand-ins for the driver's functions.

Each function records its call, fails if requested, and imitates the effect of the driver's function.

In: the table of signatures. Out: addresses of functions compiled in this process. Invariant: a call is recorded with
its arguments before anything else happens. Functions without an implementation in Python never enter Python. In
`StandIn`, these are the frequent functions (launches, contexts, events).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

# One letter per parameter: v for a value, h for an 8-byte result, i for a 4-byte result, f for a float result, n for a
# text result (followed by its length), u for a 16-byte result, m for a 64-byte result. The letters determine the
# interface of cuda.bindings.
SIGNATURES = {
    "cuInit": "v",
    "cuDriverGetVersion": "i",
    "cuDeviceGet": "iv",
    "cuDeviceGetCount": "i",
    "cuDeviceGetName": "nvv",
    "cuDeviceGetUuid": "uv",
    "cuDeviceTotalMem": "hv",
    "cuDeviceGetAttribute": "ivv",
    "cuDeviceGetDefaultMemPool": "hv",
    "cuDeviceCanAccessPeer": "ivv",
    "cuDevicePrimaryCtxRetain": "hv",
    "cuDevicePrimaryCtxRelease": "v",
    "cuCtxPushCurrent": "v",
    "cuCtxPopCurrent": "h",
    "cuCtxGetCurrent": "h",
    "cuCtxSetCurrent": "v",
    "cuCtxSynchronize": "",
    "cuCtxEnablePeerAccess": "vv",
    "cuArray3DCreate": "hv",
    "cuArrayDestroy": "v",
    "cuMemcpy3D": "v",
    "cuTexObjectCreate": "hvvv",
    "cuTexObjectDestroy": "v",
    "cuMemPoolSetAccess": "vvv",
    "cuMemPoolSetAttribute": "vvv",
    "cuMemPoolTrimTo": "vv",
    "cuStreamCreate": "hv",
    "cuStreamDestroy": "v",
    "cuStreamQuery": "v",
    "cuStreamSynchronize": "v",
    "cuStreamWaitEvent": "vvv",
    "cuEventCreate": "hv",
    "cuEventDestroy": "v",
    "cuEventRecord": "vv",
    "cuEventQuery": "v",
    "cuEventSynchronize": "v",
    "cuEventElapsedTime": "fvv",
    "cuMemAlloc": "hv",
    "cuMemAllocAsync": "hvv",
    "cuMemAllocManaged": "hvv",
    "cuMemFree": "v",
    "cuMemFreeAsync": "vv",
    "cuMemFreeHost": "v",
    "cuMemGetInfo": "hh",
    "cuMemHostAlloc": "hvv",
    "cuMemHostGetDevicePointer": "hvv",
    "cuMemHostGetFlags": "iv",
    "cuMemHostRegister": "vvv",
    "cuMemHostUnregister": "v",
    "cuIpcGetMemHandle": "mv",
    "cuIpcOpenMemHandle": "hv",
    "cuIpcCloseMemHandle": "v",
    "cuMemcpyDtoDAsync": "vvvv",
    "cuMemcpyDtoHAsync": "vvvv",
    "cuMemcpyHtoDAsync": "vvvv",
    "cuMemcpyPeerAsync": "vvvvvv",
    "cuMemsetD8Async": "vvvv",
    "cuModuleLoadData": "hv",
    "cuModuleLoadDataEx": "hvvvv",
    "cuModuleGetFunction": "hvv",
    "cuModuleUnload": "v",
    "cuFuncSetAttribute": "vvv",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": "ivvv",
    "cuOccupancyMaxPotentialBlockSize": "iivvvv",
    "cuLaunchKernel": "vvvvvvvvvvv",
    "cuLaunchCooperativeKernel": "vvvvvvvvvv",
    "cuLaunchKernelEx": "vvvv",
    "cuLaunchHostFunc": "vvv",
    "cuGraphCreate": "hv",
    "cuGraphAddKernelNode": "hvvvv",
    "cuGraphInstantiateWithFlags": "hvv",
    "cuGraphExecKernelNodeSetParams": "vvv",
    "cuGraphLaunch": "vv",
    "cuGraphExecDestroy": "v",
    "cuGraphDestroy": "v",
    "cuPointerGetAttribute": "ivv",
    "cuProfilerStart": "",
    "cuProfilerStop": "",
    "cuGetProcAddress": "vhvvi",
}
NUMBERS = {name: k for k, name in enumerate(SIGNATURES)}
LINE = 16  # words of a recorded call: function, error, arguments
LINES = 1 << 11  # number of recorded calls that are kept
FAULT = 3  # words of a fault: error, number of successful calls before, number of failing calls (-1: all)

# Kept alive, since destructors may call the driver until the process ends.
_alive: list[Functions] = []
Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int64))


class Functions:
    """The compiled functions, their recorded calls, and their planned failures.

    Parameters
    ----------
    bodies : dict
        Python implementations by name. They take the arguments and return the driver's error code. Functions without
        an implementation succeed. Their results are new handles, and zeros for numbers of 4 bytes.
    """

    def __init__(self, bodies: dict[str, Callable[[Any], int]]) -> None:
        self.lines = (ctypes.c_int64 * (LINE * LINES))()
        self.state = (ctypes.c_int64 * 2)(0, 0x1000)  # number of recorded calls, next handle
        self.faults = (ctypes.c_int64 * (FAULT * len(SIGNATURES)))()
        self.bodies = bodies
        self._callbacks = {name: Callback(self._entry(name)) for name in bodies}
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly("\n".join(self._function(name) for name in SIGNATURES))
        machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self.addresses = {name: self._engine.get_function_address(f"stand_in_{name}") for name in SIGNATURES}
        _alive.append(self)

    def _entry(self, name: str) -> Callable[[Any], int]:
        def enter(arguments: Any) -> int:
            body = self.bodies.get(name)
            return body(arguments) if body is not None else 0

        return enter

    def _function(self, name: str) -> str:
        """Return the LLVM text of a driver function, which takes all arguments as 64-bit integers."""
        kinds = SIGNATURES[name]
        number = NUMBERS[name]
        given = ", ".join(f"i64 %a{k}" for k in range(len(kinds)))
        noted = [str(number), "0", *(f"%a{k}" for k in range(len(kinds)))]
        text = [
            f"define i32 @stand_in_{name}({given}) {{",
            f"  %n = atomicrmw add ptr {_at(self.state)}, i64 1 seq_cst",
            f"  %row = and i64 %n, {LINES - 1}",
            f"  %first = mul i64 %row, {LINE}",
            f"  %line = getelementptr i64, ptr {_at(self.lines)}, i64 %first",
        ]
        for k, value in enumerate(noted):
            text += [f"  %w{k} = getelementptr i64, ptr %line, i64 {k}", f"  store i64 {value}, ptr %w{k}"]
        error, after, times = (_at(self.faults, 8 * (FAULT * number + k)) for k in range(FAULT))
        text += [
            f"  %error = load i64, ptr {error}",
            "  %bad = icmp ne i64 %error, 0",
            "  br i1 %bad, label %faulty, label %good",
            "faulty:",
            f"  %after = load i64, ptr {after}",
            "  %later = icmp sgt i64 %after, 0",
            "  br i1 %later, label %wait, label %now",
            "wait:",
            "  %less = sub i64 %after, 1",
            f"  store i64 %less, ptr {after}",
            "  br label %good",
            "now:",
            f"  %times = load i64, ptr {times}",
            "  %left = sub i64 %times, 1",
            f"  store i64 %left, ptr {times}",
            "  %last = icmp eq i64 %left, 0",
            "  %next = select i1 %last, i64 0, i64 %error",
            f"  store i64 %next, ptr {error}",
            "  store i64 %error, ptr %w1",
            "  %code = trunc i64 %error to i32",
            "  ret i32 %code",
            "good:",
            *self._body(name),
            "}",
        ]
        return "\n".join(text)

    def _body(self, name: str) -> list[str]:
        if name in self._callbacks:
            where = ctypes.cast(self._callbacks[name], ctypes.c_void_p).value
            return [
                "  %arguments = getelementptr i64, ptr %line, i64 2",
                f"  %result = call i32 inttoptr (i64 {where} to ptr)(ptr %arguments)",
                "  %wide = zext i32 %result to i64",
                "  store i64 %wide, ptr %w1",
                "  ret i32 %result",
            ]
        text = []
        for k, kind in enumerate(SIGNATURES[name]):
            if kind == "h":
                text += [
                    f"  %h{k} = atomicrmw add ptr {_at(self.state, 8)}, i64 16 seq_cst",
                    f"  %p{k} = inttoptr i64 %a{k} to ptr",
                    f"  store i64 %h{k}, ptr %p{k}",
                ]
            elif kind in "if":
                text += [f"  %p{k} = inttoptr i64 %a{k} to ptr", f"  store i32 0, ptr %p{k}"]
        return [*text, "  ret i32 0"]


def _at(memory: Any, offset: int = 0) -> str:
    return f"inttoptr (i64 {ctypes.addressof(memory) + offset} to ptr)"
