"""Ctrl-C in explicit kernels: generated code polls for signals and exits by longjmp if a handler raises.

In: the fault record of a launch, which the kernel hands over when it asks whether to go on. Out: the handler's exception, in
the record, and every thread out of the kernel. Invariant: signals are looked for by Python's main thread alone, every
`INTERVAL` at most; no thread jumps but from where its kernel asks; what such a kernel had from the C library is not given back.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from array import array
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from weft.runtime.cpu.fault_words import END, KEY, NEXT, RAISED, SHARED, STOP
from weft.runtime.cpu.loader import ENTRY, link_symbols
from weft.runtime.cpu.native import lasting, native_object, python_function
from weft.runtime.errors import CompileError

INTERVAL = 50_000_000  # nanoseconds
CLOCK = 1  # the C library's monotonic clock
PLACE = 512  # bytes of a place to jump to: more than any machine's

_C = ("pthread_self", "pthread_getspecific", "pthread_setspecific", "clock_gettime", "_setjmp", "longjmp")
_PYTHON = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch")
GUARD, ASKED, TICK = "weft_guard", "weft_asked", "weft_tick"


class Guard(NamedTuple):
    """The native entry points that make a kernel interruptible.

    `call` and `address` are an entry like a kernel's, whose slots are the kernel's address and the record's before the kernel's
    own; `asked` and `tick` are addresses of what the kernel, and the pool where it waits, call; `shared` that of the words.
    """

    call: Callable[[int, int, int], None]
    address: int
    asked: int
    tick: int
    shared: int


@cache
def guard() -> Guard | None:
    """Return the guard of this process, or None if kernels cannot be interrupted."""
    libc = ctypes.CDLL(None)
    if sys.platform != "linux" or not all(hasattr(libc, name) for name in _C):
        return None
    outside = {name: ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0 for name in _C}
    outside |= {name: python_function(name) for name in _PYTHON}
    key = ctypes.c_uint()
    if libc.pthread_key_create(ctypes.byref(key), None):
        return None
    names = (GUARD, ASKED, TICK)
    try:
        memory, (entry, asked, tick) = link_symbols(native_object(GUARD, text(), tuple(outside)).code, outside, names)
    except CompileError:
        return None
    words = array("q", (threading.main_thread().ident or 0, 0, key.value))
    lasting(memory)
    lasting(words)
    return Guard(ENTRY(entry), entry, asked, tick, words.buffer_info()[0])


def raise_again(words: array[int]) -> None:
    """Raise the exception that ended a kernel."""
    restore: Any = ctypes.pythonapi.PyErr_Restore
    restore.argtypes = (ctypes.c_void_p,) * 3
    restore.restype = None
    restore(*(word or None for word in words[RAISED:END]))


def text() -> str:
    """Return the LLVM module."""
    return f"""
declare i64 @pthread_self()
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
{_look()}{_asked()}{_tick()}{_guard()}"""


def _look() -> str:
    """Emit the function that runs pending signal handlers on the main thread and returns whether one raised."""
    return f"""
define internal i1 @look(ptr %record) noinline {{
entry:
  %time = alloca [2 x i64], align 8
  %shared.at = getelementptr i64, ptr %record, i64 {SHARED}
  %shared = load ptr, ptr %shared.at, align 8
  %main = load i64, ptr %shared, align 8
  %me = call i64 @pthread_self()
  %mine = icmp eq i64 %me, %main
  br i1 %mine, label %clock, label %no
clock:
  call i32 @clock_gettime(i32 {CLOCK}, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at, align 8
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  %next.at = getelementptr i64, ptr %shared, i64 {NEXT}
  %next = load i64, ptr %next.at, align 8
  %due = icmp sge i64 %now, %next
  br i1 %due, label %signals, label %no
signals:
  %later = add i64 %now, {INTERVAL}
  store i64 %later, ptr %next.at, align 8
  %state = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %some = icmp ne i32 %raised, 0
  br i1 %some, label %keep, label %release
keep:
  %type = getelementptr i64, ptr %record, i64 {RAISED}
  %value = getelementptr i64, ptr %record, i64 {RAISED + 1}
  %traceback = getelementptr i64, ptr %record, i64 {RAISED + 2}
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  br label %release
release:
  call void @PyGILState_Release(i32 %state)
  br i1 %some, label %stop, label %no
stop:
  %stop.at = getelementptr i64, ptr %record, i64 {STOP}
  store atomic i64 1, ptr %stop.at seq_cst, align 8
  ret i1 true
no:
  ret i1 false
}}
"""


def _asked() -> str:
    """Emit the interrupt poll that kernels call; it leaves the kernel if the kernel is to end."""
    return f"""
define void @{ASKED}(ptr %record) {{
entry:
  %stop.at = getelementptr i64, ptr %record, i64 {STOP}
  %stop = load atomic i64, ptr %stop.at seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %go, label %ask
ask:
  %raised = call i1 @look(ptr %record)
  br i1 %raised, label %go, label %on
go:
  %key = call i32 @key(ptr %record)
  %place = call ptr @pthread_getspecific(i32 %key)
  call void @longjmp(ptr %place, i32 1)
  unreachable
on:
  ret void
}}

define internal i32 @key(ptr %record) {{
entry:
  %shared.at = getelementptr i64, ptr %record, i64 {SHARED}
  %shared = load ptr, ptr %shared.at, align 8
  %key.at = getelementptr i64, ptr %shared, i64 {KEY}
  %key = load i64, ptr %key.at, align 8
  %short = trunc i64 %key to i32
  ret i32 %short
}}
"""


def _tick() -> str:
    """Emit the function that a thread calls while it waits for the pool's workers: an entry and its slots."""
    return f"""
define void @{TICK}(ptr %called, ptr %slots) {{
entry:
  %ours = icmp eq ptr %called, @{GUARD}
  br i1 %ours, label %ask, label %out
ask:
  %record.at = getelementptr i64, ptr %slots, i64 1
  %record = load ptr, ptr %record.at, align 8
  call i1 @look(ptr %record)
  br label %out
out:
  ret void
}}
"""


def _guard() -> str:
    """Emit an entry that runs a kernel's entry and is the target of its longjmp."""
    return f"""
define void @{GUARD}(ptr %slots, i64 %begin, i64 %end) {{
entry:
  %place = alloca [{PLACE} x i8], align 64
  %function = load ptr, ptr %slots, align 8
  %record.at = getelementptr i64, ptr %slots, i64 1
  %record = load ptr, ptr %record.at, align 8
  %own = getelementptr i64, ptr %slots, i64 2
  %stop.at = getelementptr i64, ptr %record, i64 {STOP}
  %stop = load atomic i64, ptr %stop.at seq_cst, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %out, label %later
later:
  %begins = icmp eq i64 %begin, 0
  br i1 %begins, label %set, label %look
look:
  %raised = call i1 @look(ptr %record)
  br i1 %raised, label %out, label %set
set:
  %key = call i32 @key(ptr %record)
  %before = call ptr @pthread_getspecific(i32 %key)
  %jumped = call i32 @_setjmp(ptr %place) returns_twice
  %first = icmp eq i32 %jumped, 0
  br i1 %first, label %run, label %over
run:
  call i32 @pthread_setspecific(i32 %key, ptr %place)
  call void %function(ptr %own, i64 %begin, i64 %end)
  br label %over
over:
  call i32 @pthread_setspecific(i32 %key, ptr %before)
  br label %out
out:
  ret void
}}
"""
