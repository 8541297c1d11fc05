"""The native code of the worker threads, which wait, run parts of a kernel, and never enter the interpreter.

In: the layout below, which `pool` fills in. Out: an object file with `RUN`, `THREAD`, `COPY` and `PAUSE`, from the disk cache or made by
LLVM now. Invariant: a worker reads what a job is only between counting itself in and out, and only while the job is open; a
job is closed, and nobody is counted in, when `RUN` returns.
"""

from __future__ import annotations

import platform
from importlib import import_module

from weft.runtime.cache import disk_cache, key_material
from weft.runtime.cpu.llvm_library import load_llvm
from weft.runtime.object_code import ObjectCode

RUN, THREAD, COPY, PAUSE = "weft_pool_run", "weft_pool_thread", "weft_pool_copy", "weft_pool_pause"

# Bytes from the start of a pool's memory to what it holds; what threads write at the same time lies on lines of its own.
OPEN, INSIDE, SLEEPERS, WAITING = (
    0,
    64,
    128,
    136,
)  # number of the open job or 0; workers at it; asleep; whether a thread waits for them
TURNS = 152  # how often a thread looks out for the next job, or for the end of one, before it sleeps
TICK = 144  # the address of what is called from time to time by who waits for workers, or 0
JOB = 192  # entry, slots, extent, chunk, parts; the number of the last job
MUTEX, START, DONE = 256, 384, 512  # a mutex, and the conditions that a job is open, and that nobody is at it
LINES, LINE = 1024, 64  # a part's line: the next index, the end; then for a worker: the pool and its number
MOST_PARTS = 256

SYMBOLS = (
    "memcpy",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "clock_gettime",
    "pthread_cond_broadcast",
)
NAP = 50_000_000  # nanoseconds between two such calls


def _pause() -> tuple[str, str]:
    """Return the declaration and the call of the processor's spin-wait hint."""
    match platform.machine().lower():
        case "x86_64" | "amd64":
            return "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
        case "aarch64" | "arm64":
            return "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
        case _:
            return "", ""


def text() -> str:
    """Return the LLVM module."""
    declaration, pause = _pause()
    return f"""
declare ptr @memcpy(ptr, ptr, i64)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_cond_broadcast(ptr)
{declaration}
{_work()}{_thread(pause)}{_nap()}{_wait(pause)}{_run()}{_copy()}{_rest(pause)}"""


def _work() -> str:
    """Emit a thread's share of the open job: its own part first, in chunks, then what other threads have left."""
    return f"""
define internal void @work(ptr %pool, i64 %me) {{
entry:
  %job = getelementptr i8, ptr %pool, i64 {JOB}
  %slots_at = getelementptr i8, ptr %job, i64 8
  %extent_at = getelementptr i8, ptr %job, i64 16
  %chunk_at = getelementptr i8, ptr %job, i64 24
  %parts_at = getelementptr i8, ptr %job, i64 32
  %function = load ptr, ptr %job, align 8
  %slots = load ptr, ptr %slots_at, align 8
  %extent = load i64, ptr %extent_at, align 8
  %chunk = load i64, ptr %chunk_at, align 8
  %parts = load i64, ptr %parts_at, align 8
  %wanted = icmp ult i64 %me, %parts
  br i1 %wanted, label %part, label %over
part:
  %turn = phi i64 [ 0, %entry ], [ %next_turn, %empty ]
  %sum = add i64 %me, %turn
  %number = urem i64 %sum, %parts
  %offset = mul i64 %number, {LINE}
  %place = add i64 %offset, {LINES}
  %line = getelementptr i8, ptr %pool, i64 %place
  %end_at = getelementptr i8, ptr %line, i64 8
  %end = load i64, ptr %end_at, align 8
  br label %look
look:
  %left = load atomic i64, ptr %line monotonic, align 8
  %some = icmp slt i64 %left, %end
  br i1 %some, label %claim, label %empty
claim:
  %start = atomicrmw add ptr %line, i64 %chunk acq_rel, align 8
  %mine = icmp slt i64 %start, %end
  br i1 %mine, label %run, label %empty
run:
  %to = add i64 %start, %chunk
  %inside = icmp slt i64 %to, %extent
  %stop = select i1 %inside, i64 %to, i64 %extent
  call void %function(ptr %slots, i64 %start, i64 %stop)
  br label %look
empty:
  %next_turn = add i64 %turn, 1
  %others = icmp ult i64 %next_turn, %parts
  br i1 %others, label %part, label %over
over:
  ret void
}}
"""


def _thread(pause: str) -> str:
    """Emit a worker's main function: spin for a job, sleep, take part."""
    return f"""
define ptr @{THREAD}(ptr %line) {{
entry:
  %pool_at = getelementptr i8, ptr %line, i64 16
  %me_at = getelementptr i8, ptr %line, i64 24
  %pool = load ptr, ptr %pool_at, align 8
  %me = load i64, ptr %me_at, align 8
  %inside = getelementptr i8, ptr %pool, i64 {INSIDE}
  %sleepers = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %waiting = getelementptr i8, ptr %pool, i64 {WAITING}
  %mutex = getelementptr i8, ptr %pool, i64 {MUTEX}
  %start = getelementptr i8, ptr %pool, i64 {START}
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %turns_at = getelementptr i8, ptr %pool, i64 {TURNS}
  %turns = load i64, ptr %turns_at, align 8
  br label %idle
idle:
  %seen = phi i64 [ 0, %entry ], [ %last, %leave ], [ %last, %tell ]
  br label %look
look:
  %count = phi i64 [ 0, %idle ], [ %counted, %pause ]
  %now = load atomic i64, ptr %pool seq_cst, align 8
  %open = icmp ne i64 %now, 0
  %other = icmp ne i64 %now, %seen
  %fresh = and i1 %open, %other
  br i1 %fresh, label %enter, label %pause
pause:
  {pause}
  %counted = add i64 %count, 1
  %more = icmp ult i64 %counted, %turns
  br i1 %more, label %look, label %doze
doze:
  call i32 @pthread_mutex_lock(ptr %mutex)
  atomicrmw add ptr %sleepers, i64 1 seq_cst, align 8
  br label %check
check:
  %later = load atomic i64, ptr %pool seq_cst, align 8
  %later_open = icmp ne i64 %later, 0
  %later_other = icmp ne i64 %later, %seen
  %called = and i1 %later_open, %later_other
  br i1 %called, label %wake, label %sleep
sleep:
  call i32 @pthread_cond_wait(ptr %start, ptr %mutex)
  br label %check
wake:
  atomicrmw sub ptr %sleepers, i64 1 seq_cst, align 8
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %enter
enter:
  atomicrmw add ptr %inside, i64 1 seq_cst, align 8
  %job = load atomic i64, ptr %pool seq_cst, align 8
  %still = icmp ne i64 %job, 0
  br i1 %still, label %do, label %leave
do:
  call void @work(ptr %pool, i64 %me)
  br label %leave
leave:
  %last = phi i64 [ %seen, %enter ], [ %job, %do ]
  atomicrmw sub ptr %inside, i64 1 seq_cst, align 8
  %awaited = load atomic i64, ptr %waiting seq_cst, align 8
  %someone = icmp ne i64 %awaited, 0
  br i1 %someone, label %tell, label %idle
tell:
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_broadcast(ptr %done)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %idle
}}
"""


def _run() -> str:
    """Emit the function that divides, opens, joins, closes and awaits a job."""
    return f"""
define void @{RUN}(ptr %pool, ptr %function, ptr %slots, i64 %extent, i64 %chunk, i64 %parts) {{
entry:
  %sleepers = getelementptr i8, ptr %pool, i64 {SLEEPERS}
  %mutex = getelementptr i8, ptr %pool, i64 {MUTEX}
  %start = getelementptr i8, ptr %pool, i64 {START}
  %job = getelementptr i8, ptr %pool, i64 {JOB}
  %slots_at = getelementptr i8, ptr %job, i64 8
  %extent_at = getelementptr i8, ptr %job, i64 16
  %chunk_at = getelementptr i8, ptr %job, i64 24
  %parts_at = getelementptr i8, ptr %job, i64 32
  store ptr %function, ptr %job, align 8
  store ptr %slots, ptr %slots_at, align 8
  store i64 %extent, ptr %extent_at, align 8
  store i64 %chunk, ptr %chunk_at, align 8
  store i64 %parts, ptr %parts_at, align 8
  %number_at = getelementptr i8, ptr %job, i64 40
  %last = load i64, ptr %number_at, align 8
  %number = add i64 %last, 1
  store i64 %number, ptr %number_at, align 8
  %up = add i64 %extent, %chunk
  %rounded = sub i64 %up, 1
  %chunks = sdiv i64 %rounded, %chunk
  br label %divide
divide:
  %part = phi i64 [ 0, %entry ], [ %following, %divide ]
  %from = phi i64 [ 0, %entry ], [ %edge, %divide ]
  %following = add i64 %part, 1
  %shared = mul i64 %chunks, %following
  %upto = sdiv i64 %shared, %parts
  %edge = mul i64 %upto, %chunk
  %offset = mul i64 %part, {LINE}
  %place = add i64 %offset, {LINES}
  %line = getelementptr i8, ptr %pool, i64 %place
  %end_at = getelementptr i8, ptr %line, i64 8
  store atomic i64 %from, ptr %line monotonic, align 8
  store i64 %edge, ptr %end_at, align 8
  %more = icmp slt i64 %following, %parts
  br i1 %more, label %divide, label %open
open:
  store atomic i64 %number, ptr %pool seq_cst, align 8
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp ne i64 %asleep, 0
  br i1 %any, label %call, label %own
call:
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_broadcast(ptr %start)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %own
own:
  call void @work(ptr %pool, i64 0)
  store atomic i64 0, ptr %pool seq_cst, align 8
  call void @wait(ptr %pool, ptr %function, ptr %slots)
  ret void
}}
"""


def _wait(pause: str) -> str:
    """Emit the wait, after a job is closed, until no worker uses it."""
    return f"""
define internal void @wait(ptr %pool, ptr %function, ptr %slots) {{
entry:
  %inside = getelementptr i8, ptr %pool, i64 {INSIDE}
  %waiting = getelementptr i8, ptr %pool, i64 {WAITING}
  %mutex = getelementptr i8, ptr %pool, i64 {MUTEX}
  %done = getelementptr i8, ptr %pool, i64 {DONE}
  %turns_at = getelementptr i8, ptr %pool, i64 {TURNS}
  %turns = load i64, ptr %turns_at, align 8
  br label %look
look:
  %count = phi i64 [ 0, %entry ], [ %counted, %pause ]
  %busy = load atomic i64, ptr %inside seq_cst, align 8
  %free = icmp eq i64 %busy, 0
  br i1 %free, label %over, label %pause
pause:
  {pause}
  %counted = add i64 %count, 1
  %again = icmp ult i64 %counted, %turns
  br i1 %again, label %look, label %doze
doze:
  store atomic i64 1, ptr %waiting seq_cst, align 8
  call i32 @pthread_mutex_lock(ptr %mutex)
  br label %check
check:
  %still = load atomic i64, ptr %inside seq_cst, align 8
  %ended = icmp eq i64 %still, 0
  br i1 %ended, label %wake, label %sleep
sleep:
  %tick.at = getelementptr i8, ptr %pool, i64 {TICK}
  %tick = load ptr, ptr %tick.at, align 8
  %silent = icmp eq ptr %tick, null
  br i1 %silent, label %rest, label %nap
rest:
  call i32 @pthread_cond_wait(ptr %done, ptr %mutex)
  br label %check
nap:
  call void @nap(ptr %done, ptr %mutex)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  call void %tick(ptr %function, ptr %slots)
  call i32 @pthread_mutex_lock(ptr %mutex)
  br label %check
wake:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  store atomic i64 0, ptr %waiting seq_cst, align 8
  br label %over
over:
  ret void
}}
"""


def _nap() -> str:
    """Emit a wait on a condition variable for at most `NAP`."""
    return f"""
define internal void @nap(ptr %condition, ptr %mutex) {{
entry:
  %until = alloca [2 x i64], align 8
  call i32 @clock_gettime(i32 0, ptr %until)
  %rest.at = getelementptr i64, ptr %until, i64 1
  %seconds = load i64, ptr %until, align 8
  %rest = load i64, ptr %rest.at, align 8
  %later = add i64 %rest, {NAP}
  %more = udiv i64 %later, 1000000000
  %left = urem i64 %later, 1000000000
  %then = add i64 %seconds, %more
  store i64 %then, ptr %until, align 8
  store i64 %left, ptr %rest.at, align 8
  call i32 @pthread_cond_timedwait(ptr %condition, ptr %mutex, ptr %until)
  ret void
}}
"""


def _copy() -> str:
    """Emit a kernel that copies bytes from the address in its first slot to the one in its second."""
    return f"""
define void @{COPY}(ptr %slots, i64 %begin, i64 %end) {{
  %target_at = getelementptr i64, ptr %slots, i64 1
  %source = load ptr, ptr %slots, align 8
  %target = load ptr, ptr %target_at, align 8
  %from = getelementptr i8, ptr %source, i64 %begin
  %to = getelementptr i8, ptr %target, i64 %begin
  %count = sub i64 %end, %begin
  call ptr @memcpy(ptr %to, ptr %from, i64 %count)
  ret void
}}
"""


def _rest(pause: str) -> str:
    """Emit a number of spin iterations, whose time depends on the processor."""
    return f"""
define void @{PAUSE}(i64 %turns) {{
entry:
  br label %turn
turn:
  %count = phi i64 [ 0, %entry ], [ %counted, %turn ]
  {pause}
  %counted = add i64 %count, 1
  %more = icmp ult i64 %counted, %turns
  br i1 %more, label %turn, label %over
over:
  ret void
}}
"""


def object_code() -> ObjectCode:
    """Return the object code for this machine."""
    source, cache = text(), disk_cache()
    key = key_material("worker threads", f"{platform.machine()} {platform.system()}\n{source}")
    found = cache.get(key) if cache is not None else None
    if found is None:
        load_llvm()
        data = import_module("weft.runtime.cpu.mcjit").compile_text(source)
        found = ObjectCode("object", RUN, data, "host", (), SYMBOLS)
        if cache is not None:
            cache.put(key, found)
    return found
