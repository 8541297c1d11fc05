; The worker threads: pool_code.py describes the memory of a pool and defines the offsets.

declare ptr @memcpy(ptr, ptr, i64)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_cond_broadcast(ptr)
${HINT}

; Runs a thread's share of the open job in chunks: its own part first, then the remaining chunks of other threads.
define internal void @work(ptr %pool, i64 %me) {
entry:
  %job = getelementptr i8, ptr %pool, i64 ${JOB}
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
  %offset = mul i64 %number, ${LINE}
  %line_offset = add i64 %offset, ${LINES}
  %line = getelementptr i8, ptr %pool, i64 %line_offset
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
  %first = icmp eq i64 %me, 0
  br i1 %first, label %sleepers, label %look
sleepers:                             ; whoever began the job wakes the others if it lasts
  %wake_at = getelementptr i8, ptr %pool, i64 ${WAKE}
  %due = load i64, ptr %wake_at, align 8
  %some_sleep = icmp ne i64 %due, 0
  br i1 %some_sleep, label %clock, label %look
clock:
  %now = call i64 @now()
  %lasts = icmp sge i64 %now, %due
  br i1 %lasts, label %wake, label %look
wake:
  store i64 0, ptr %wake_at, align 8
  call void @signal(ptr %pool, i64 ${START})
  br label %look
empty:
  %next_turn = add i64 %turn, 1
  %others = icmp ult i64 %next_turn, %parts
  br i1 %others, label %part, label %over
over:
  ret void
}

; Wakes the threads that wait for the condition variable at the offset %which.
define internal void @signal(ptr %pool, i64 %which) {
entry:
  %mutex = getelementptr i8, ptr %pool, i64 ${MUTEX}
  %condition = getelementptr i8, ptr %pool, i64 %which
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_broadcast(ptr %condition)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; Returns the time of a monotonic clock in nanoseconds.
define internal i64 @now() {
entry:
  %time = alloca [2 x i64], align 8
  call i32 @clock_gettime(i32 ${CLOCK}, ptr %time)
  %rest_at = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time, align 8
  %rest = load i64, ptr %rest_at, align 8
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %rest
  ret i64 %sum
}

; A worker's main function: it spins until a job opens, or sleeps, and then takes part in the job.
define ptr @weft_pool_thread(ptr %line) {
entry:
  %pool_at = getelementptr i8, ptr %line, i64 16
  %me_at = getelementptr i8, ptr %line, i64 24
  %pool = load ptr, ptr %pool_at, align 8
  %me = load i64, ptr %me_at, align 8
  %inside = getelementptr i8, ptr %pool, i64 ${INSIDE}
  %sleepers = getelementptr i8, ptr %pool, i64 ${SLEEPERS}
  %waiting = getelementptr i8, ptr %pool, i64 ${WAITING}
  %mutex = getelementptr i8, ptr %pool, i64 ${MUTEX}
  %start = getelementptr i8, ptr %pool, i64 ${START}
  %spins_at = getelementptr i8, ptr %pool, i64 ${SPINS}
  %spins = load i64, ptr %spins_at, align 8
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
  ${SPIN}
  %counted = add i64 %count, 1
  %more = icmp ult i64 %counted, %spins
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
  call void @signal(ptr %pool, i64 ${DONE})
  br label %idle
}

; Divides a job, opens it, runs a share of it, closes it, and waits for its end. Sleeping workers are woken after
; `alone` nanoseconds.
define void @weft_pool_run(ptr %pool, ptr %function, ptr %slots, i64 %extent, i64 %chunk, i64 %parts, i64 %alone) {
entry:
  %sleepers = getelementptr i8, ptr %pool, i64 ${SLEEPERS}
  %wake_at = getelementptr i8, ptr %pool, i64 ${WAKE}
  %job = getelementptr i8, ptr %pool, i64 ${JOB}
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
  %offset = mul i64 %part, ${LINE}
  %line_offset = add i64 %offset, ${LINES}
  %line = getelementptr i8, ptr %pool, i64 %line_offset
  %end_at = getelementptr i8, ptr %line, i64 8
  store atomic i64 %from, ptr %line monotonic, align 8
  store i64 %edge, ptr %end_at, align 8
  %more = icmp slt i64 %following, %parts
  br i1 %more, label %divide, label %open
open:
  store atomic i64 %number, ptr %pool seq_cst, align 8
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp ne i64 %asleep, 0
  br i1 %any, label %asleep.some, label %own
asleep.some:
  %later = icmp ne i64 %alone, 0
  br i1 %later, label %wait, label %call
wait:
  %now = call i64 @now()
  %due = add i64 %now, %alone
  br label %own
call:
  call void @signal(ptr %pool, i64 ${START})
  br label %own
own:
  %wake = phi i64 [ 0, %open ], [ %due, %wait ], [ 0, %call ]
  store i64 %wake, ptr %wake_at, align 8
  call void @work(ptr %pool, i64 0)
  store atomic i64 0, ptr %pool seq_cst, align 8
  call void @wait(ptr %pool, ptr %function, ptr %slots)
  ret void
}

; Waits until no worker uses a closed job.
define internal void @wait(ptr %pool, ptr %function, ptr %slots) {
entry:
  %inside = getelementptr i8, ptr %pool, i64 ${INSIDE}
  %waiting = getelementptr i8, ptr %pool, i64 ${WAITING}
  %mutex = getelementptr i8, ptr %pool, i64 ${MUTEX}
  %done = getelementptr i8, ptr %pool, i64 ${DONE}
  %spins_at = getelementptr i8, ptr %pool, i64 ${SPINS}
  %spins = load i64, ptr %spins_at, align 8
  br label %look
look:
  %count = phi i64 [ 0, %entry ], [ %counted, %pause ]
  %busy = load atomic i64, ptr %inside seq_cst, align 8
  %free = icmp eq i64 %busy, 0
  br i1 %free, label %over, label %pause
pause:
  ${SPIN}
  %counted = add i64 %count, 1
  %again = icmp ult i64 %counted, %spins
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
  %tick.at = getelementptr i8, ptr %pool, i64 ${TICK}
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
}

; Waits on a condition variable for at most NAP nanoseconds.
define internal void @nap(ptr %condition, ptr %mutex) {
entry:
  %until = alloca [2 x i64], align 8
  call i32 @clock_gettime(i32 0, ptr %until)
  %rest.at = getelementptr i64, ptr %until, i64 1
  %seconds = load i64, ptr %until, align 8
  %rest = load i64, ptr %rest.at, align 8
  %later = add i64 %rest, ${NAP}
  %more = udiv i64 %later, 1000000000
  %left = urem i64 %later, 1000000000
  %then = add i64 %seconds, %more
  store i64 %then, ptr %until, align 8
  store i64 %left, ptr %rest.at, align 8
  call i32 @pthread_cond_timedwait(ptr %condition, ptr %mutex, ptr %until)
  ret void
}

; A kernel that copies bytes from the address in its first slot to the one in its second.
define void @weft_pool_copy(ptr %slots, i64 %begin, i64 %end) {
  %target_at = getelementptr i64, ptr %slots, i64 1
  %source = load ptr, ptr %slots, align 8
  %target = load ptr, ptr %target_at, align 8
  %from = getelementptr i8, ptr %source, i64 %begin
  %to = getelementptr i8, ptr %target, i64 %begin
  %count = sub i64 %end, %begin
  call ptr @memcpy(ptr %to, ptr %from, i64 %count)
  ret void
}

; Spins for the given number of iterations. The time of an iteration depends on the processor.
define void @weft_pool_pause(i64 %spins) {
entry:
  br label %turn
turn:
  %count = phi i64 [ 0, %entry ], [ %counted, %turn ]
  ${SPIN}
  %counted = add i64 %count, 1
  %more = icmp ult i64 %counted, %spins
  br i1 %more, label %turn, label %over
over:
  ret void
}
